"""``hpo reproduce``: trains a trial again and compares its reports with the earlier reports."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hpo_ops.checkpoints import BadCodeError, hash_code
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import connect
from hpo_ops.cli.follow_study import follow
from hpo_ops.cli.show_command import TrialNumber, find_trial
from hpo_ops.cli.terminal import Json, Run, StudyName, err, out, print_json
from hpo_ops.cli.trigger_target import DAG_SECONDS
from hpo_ops.client import TrialDetail
from hpo_ops.config.runner_registry import find_runner
from hpo_ops.protocol import Provenance, Report

EPILOG = "Examples: hpo reproduce digits 3 · hpo reproduce digits 3 --tolerance 1e-6"

COMPARED = ("code_hash", "commit", "is_dirty", "image", "image_digest", "python", "packages")
DROPPED = (
    "warm_start",
    "constraints",
    "max_parallelism",
    "max_trials",
    "budget",
    "stop",
    "finalizers",
    "repeats",
    "allocator",
    "curves",
)
"""Keys of a study file that do not affect how a single trial is trained."""


def reproduce(
    study: StudyName,
    trial: TrialNumber,
    run_id: Run = None,
    tolerance: Annotated[
        float,
        typer.Option(
            min=0.0, help="Largest difference between two values that are treated as equal."
        ),
    ] = 0.0,
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Train even if the code has changed since.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Trains a trial again with the same parameters, seed and steps, and compares the reports.

    The exit code is 1 if a value differs.
    """
    session = connect()
    progress = session.study(study, run_id)
    if progress.folds:
        raise CommandError(
            f"study {study} has folds, but only trials without folds can be reproduced"
        )
    before = find_trial(session, progress, trial)
    curve = session.gateway.curve(progress.id, trial)
    if not curve:
        raise CommandError(f"trial {trial} of study {study} has no reports to compare with")
    config = session.gateway.config(progress.id)
    if not any_code:
        check_code(config.get("code"), before.provenance)
    again = study_of_trial(config, before, last_step=curve[-1].step)
    dag_id = find_runner(again["runner"]).generic_dag
    session.airflow.wait_for_dag(dag_id, seconds=DAG_SECONDS)
    new_run = session.airflow.trigger(dag_id, {"study": again})
    page = session.airflow.run_page(dag_id, new_run)
    err.print(f"Training trial {trial} of {progress.key} again: {page}", soft_wrap=True)
    follow(session, err, dag_id=dag_id, run_id=new_run, name=again["name"])
    try:
        made = session.gateway.find(again["name"], new_run, dag_id=dag_id)
        after = session.gateway.trial(made.id, 0)
    except LookupError:
        why = session.airflow.failure_of(dag_id, new_run, "prepare")
        raise CommandError(f"study {again['name']} was not started: {why or page}") from None
    found = list(compare(curve, session.gateway.curve(made.id, 0), tolerance=tolerance))
    changed = list(changes(before.provenance, after.provenance))
    _print_result(found, changed, after, steps=len(curve), as_json=as_json, run=made.key)
    if found:
        raise typer.Exit(1)


def check_code(folder: str | None, before: Provenance) -> None:
    """Checks that a code folder has not changed since the trial was trained.

    The check is skipped if the study has no code folder, the folder is not on this machine, or the
    trial has no code hash.

    Args:
        folder: The study's code folder; None if the study has none.
        before: The provenance of the earlier training, with the hash of its code.

    Raises:
        CommandError: The code has changed, or cannot be read.
    """
    if folder is None or before.code_hash is None or not Path(folder).is_dir():
        return
    try:
        now = hash_code(Path(folder))
    except (BadCodeError, OSError) as error:
        raise CommandError(f"the code cannot be compared: {error}") from error
    if now != before.code_hash:
        commit = f" (commit {before.commit})" if before.commit else ""
        raise CommandError(
            f"the code in {folder} has changed: its hash is {now}, but the trial was trained with "
            f"{before.code_hash}{commit}. Restore that code, or use --any-code"
        )


def study_of_trial(
    config: Mapping[str, Any], before: TrialDetail, *, last_step: int
) -> dict[str, Any]:
    """Returns the study file of a study that trains one earlier trial again.

    The only trial of that study has the earlier trial's parameters, seed and steps.

    Args:
        config: The study file of the earlier trial's study.
        before: The earlier trial.
        last_step: The last step that the earlier trial has reported.
    """
    kept = {key: value for key, value in config.items() if key not in DROPPED}
    metric = config.get("metric")
    ran_open = all(segment.until_step is None for segment in before.segments)
    scheduler: dict[str, Any] = {"name": "default"}
    if not (ran_open and before.summary.state == "completed"):
        scheduler["max_steps"] = last_step
    return {
        **kept,
        "name": f"{config['name'][:90]}.again",
        "metric": metric and {**metric, "target": None},
        "sampler": "random",
        "scheduler": scheduler,
        "enqueue": [dict(before.summary.params)],
        "trials": 1,
        "parallelism": 1,
        "flow": "rolling",
        "reproducible": False,
        "cache": False,
        "trial_seed": before.seed,
    }


@dataclass(frozen=True)
class Difference:
    """A metric whose values at one step differ between two trainings.

    Attributes:
        step: The step.
        metric: The name of the metric.
        before: The value in the earlier training; None if it did not report the metric.
        after: The value in the later training; None if it did not report the metric.
    """

    step: int
    metric: str
    before: float | None
    after: float | None


def compare(
    before: Sequence[Report], after: Sequence[Report], *, tolerance: float = 0.0
) -> Iterator[Difference]:
    """Yields the differences between the reports of two trainings, ordered by step.

    Args:
        before: The reports of the earlier training.
        after: The reports of the later training.
        tolerance: The largest absolute difference between two values that are treated as equal.
    """
    then = {report.step: report.metrics for report in before}
    now = {report.step: report.metrics for report in after}
    for step in sorted(then | now):
        old, new = then.get(step, {}), now.get(step, {})
        for metric in [*old, *(name for name in new if name not in old)]:
            one, other = old.get(metric), new.get(metric)
            if one is None or other is None or not _is_same(one, other, tolerance):
                yield Difference(step, metric, one, other)


def _is_same(one: float, other: float, tolerance: float) -> bool:
    return one == other or math.isclose(one, other, rel_tol=0.0, abs_tol=tolerance)


def changes(before: Provenance, after: Provenance) -> Iterator[str]:
    """Yields a sentence for each difference in code, image or packages between two trainings.

    A property or package that is unknown for one of the trainings is skipped.
    """
    old, new = before.to_dict(), after.to_dict()
    for name in COMPARED:
        then, now = old[name], new[name]
        if name == "packages":
            for package in sorted(then.keys() & now.keys()):
                if then[package] != now[package]:
                    yield f"{package} was {then[package]}, and is {now[package]}"
        elif then is not None and now is not None and then != now:
            yield f"{name} was {then}, and is {now}"


def _print_result(
    found: Sequence[Difference],
    changed: Sequence[str],
    after: TrialDetail,
    *,
    steps: int,
    as_json: bool,
    run: str,
) -> None:
    if as_json:
        print_json(
            {
                "is_same": not found,
                "steps": steps,
                "study": run,
                "differences": [asdict(item) for item in found],
                "changes": list(changed),
            }
        )
        return
    for line in changed:
        out.print(f"changed: {line}", soft_wrap=True)
    if not found:
        out.print(f"Reproduced: the reports of {steps} steps in {run} have the same values")
        return
    reason = after.summary.reason
    out.print(f"Not reproduced: {len(found)} values differ ({run}: {reason})", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Step", "Metric", "Before", "After", "Difference"):
        table.add_column(column)
    for item in found:
        is_number = item.before is not None and item.after is not None
        gap = f"{item.after - item.before:+.3g}" if is_number else ""  # type: ignore[operator]
        table.add_row(str(item.step), item.metric, _text(item.before), _text(item.after), gap)
    out.print(table)


def _text(value: float | None) -> str:
    return "" if value is None else repr(value)
