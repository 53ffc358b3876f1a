"""``hpo doctor``: finds and repairs inconsistencies of ledger, Airflow and cluster after a crash.

A finding is one inconsistency, such as a pod without a segment in the ledger, or a segment without
its pod. A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import Session, connect
from hpo_ops.cli.terminal import SafeConsole
from hpo_ops.client.reconciler import Reconciler, Repaired
from hpo_ops.config.runner_registry import all_runners
from hpo_ops.core.leftovers import Finding, LedgerStudy, RunState
from hpo_ops.core.runner_resources import ResourcesUnavailableError, RunnerResources

EXAMPLES = (
    "Examples: hpo doctor · hpo doctor --namespace training · hpo doctor --fix · "
    "hpo doctor --json | jq '.findings[].text'"
)


def doctor(
    is_fixed: Annotated[bool, typer.Option("--fix", help="Repair the findings.")] = False,
    with_unknown: Annotated[
        bool,
        typer.Option(
            "--unknown",
            help="With --fix: also delete pods, secrets and containers that the ledger lacks. "
            "Only where no other installation uses the namespace.",
        ),
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            help="Namespace of pods whose study names none, as in the connection "
            "kubernetes_default; by default the namespace of the kubeconfig's context."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Compares the ledger, Airflow and pods or containers, and lists what a crash left behind.

    The exit code is 0 if nothing was found or everything was repaired, otherwise 1.
    """
    session = connect()
    resources, notes = _open_resources(namespace)
    reconciler = Reconciler(
        session.gateway, lambda study: _run_state(session, study, notes), resources
    )
    findings = reconciler.look()
    done = reconciler.repair(findings, with_unknown=with_unknown) if is_fixed else []
    notes += [note for access in resources.values() for note in access.notes]
    if as_json:
        print(json.dumps(_as_data(findings, done, notes, runners=sorted(resources)), indent=2))
    else:
        _show(findings, done, notes)
    is_well = all(not item.problem for item in done) if is_fixed else not findings
    if not is_well:
        raise typer.Exit(1)


def _open_resources(namespace: str | None) -> tuple[dict[str, RunnerResources], list[str]]:
    """Opens the resources (pods or containers) of each runner that this machine can access.

    Args:
        namespace: The Kubernetes namespace that the user has given; None for the default.

    Returns:
        The resources by the runner's name, and a note on each runner that cannot be accessed.

    Raises:
        CommandError: A namespace is given, but its pods cannot be listed.
    """
    found: dict[str, RunnerResources] = {}
    notes: list[str] = []
    for name, runner in all_runners().items():
        try:
            access = runner.resources_of_person(namespace)
        except ResourcesUnavailableError as error:
            if namespace is not None and runner.namespace_key:
                raise CommandError(
                    f"the pods of the namespace {namespace} cannot be listed: {error}"
                ) from error
            notes.append(f"resources of the runner {name} were not checked: {error}")
            continue
        if access is not None:
            found[name] = access
    return found, notes


def _run_state(session: Session, study: LedgerStudy, notes: list[str]) -> RunState | None:
    try:
        return RunState.of(session.airflow.run_state(study.dag_id, study.run_id))
    except LookupError:
        return RunState.MISSING
    except CommandError as error:
        notes.append(f"the DAG run of study {study.key} could not be checked: {error}")
        return None


def _as_data(
    findings: Sequence[Finding], done: Sequence[Repaired], notes: list[str], *, runners: list[str]
) -> dict[str, object]:
    shown = [
        {
            **finding.to_dict(),
            "repair": finding.repair_text,
            "is_repaired": False,
            "problem": "",
        }
        for finding in findings
    ]
    for data, item in zip(shown, done, strict=False):
        data.update(is_repaired=not item.problem, problem=item.problem)
    return {"findings": shown, "notes": notes, "runners_were_seen": runners}


def _show(findings: Sequence[Finding], done: Sequence[Repaired], notes: list[str]) -> None:
    out = SafeConsole()
    for note in notes:
        out.print(f"note: {note}", soft_wrap=True)
    if not findings:
        out.print("No problems found")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Found", "Repair", *(["Result"] if done else [])):
        table.add_column(column, overflow="fold")
    for index, finding in enumerate(findings):
        result = [done[index].problem or "repaired"] if done else []
        table.add_row(finding.text, finding.repair_text, *result)
    out.print(table)
    left = sum(bool(item.problem) for item in done) if done else len(findings)
    out.print(f"Problems: {len(findings)} found, {len(findings) - left} repaired")
    if not done:
        out.print("Repair with: hpo doctor --fix")
