"""``hpo compare``: ranks samplers and schedulers on one study, or ranks studies that have run.

An experiment is a study that is repeated with several seeds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import Session, connect
from hpo_ops.cli.experiment_command import (
    Plot,
    draw_bands,
    estimate_text,
    follow_repeats,
    follow_runs,
)
from hpo_ops.cli.terminal import Json, err, out, print_json
from hpo_ops.cli.trigger_target import DAG_SECONDS, Target, generic_dag_target
from hpo_ops.client import Experiment
from hpo_ops.config import Policy, StudyConfig, load_study, parse_study
from hpo_ops.core import Direction
from hpo_ops.core.experiment_statistics import Standing, rank
from hpo_ops.simulator.policy_parsing import parse_options, split_policies, with_max_steps

EPILOG = (
    "Examples: hpo compare study.yaml --sampler random,tpe --repeats 10 · "
    "hpo compare study.random study.tpe"
)
REPEATS = 10
"""The number of repeats of each variant, if neither the command nor the study sets it."""


def compare(
    studies: Annotated[
        list[str], typer.Argument(help="One study file, or names of studies that have run.")
    ],
    sampler: Annotated[
        list[str] | None, typer.Option(help="Samplers to compare, such as random,tpe.")
    ] = None,
    scheduler: Annotated[
        list[str] | None, typer.Option(help="Schedulers to compare, such as default,asha:eta=4.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Repeats of each study.")] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Runs a study with several samplers or schedulers, and ranks these by the study's results.

    If names of studies that have run are given instead of a file, ranks these studies.
    """
    session = connect()
    if len(studies) == 1 and Path(studies[0]).suffix in (".yaml", ".yml"):
        study = load_study(Path(studies[0]))
        made = variants(study, sampler or [], scheduler or [], repeats)
        found = _run(session, made, source=studies[0], is_quiet=as_json)
    elif sampler or scheduler or repeats:
        raise CommandError("--sampler, --scheduler and --repeats need one study file")
    else:
        found = [session.gateway.experiment(session.study(name).id) for name in studies]
    standings = rank_experiments(found)
    if plot is not None:
        draw_bands({item.study: item for item in found}, plot)
    if as_json:
        print_json(_to_json(found, standings))
        return
    out.print(standings_table(standings, found[0].metric))
    if len(standings) > 1:
        out.print(_conclusion(standings), soft_wrap=True)
    if plot is not None:
        out.print(f"Plot: {plot}", soft_wrap=True)


def variants(
    study: StudyConfig, samplers: Sequence[str], schedulers: Sequence[str], repeats: int | None
) -> list[StudyConfig]:
    """Creates one variant of a study for each combination of a sampler and a scheduler.

    All variants have the study's seed.

    Args:
        study: The study to vary.
        samplers: Samplers, such as ``random,tpe``; empty for the study's own sampler.
        schedulers: Schedulers, such as ``asha:eta=4``; empty for the study's own scheduler.
        repeats: The number of repeats of each study; None for the number in the study, or
            `REPEATS` if the study is not repeated.

    Raises:
        CommandError: There are fewer than two combinations.
        StudyError: A sampler or scheduler, or one of its options, is not valid.
    """
    choices = list(product(_split(samplers), _split(schedulers)))
    if len(choices) < 2:
        raise CommandError(
            "there is only one variant to run: give several to --sampler or --scheduler, "
            "separated by commas"
        )
    count = repeats or (study.repeats if study.repeats > 1 else REPEATS)
    return [_variant(study, *choice, count) for choice in choices]


def _split(options: Sequence[str]) -> list[str | None]:
    """Splits values of ``--sampler`` or ``--scheduler``, such as ``random,tpe``, into policies.

    Returns ``[None]``, which stands for the study's own policy, if there are no values.
    """
    return [policy for option in options for policy in split_policies(option)] or [None]


def _variant(
    study: StudyConfig, sampler: str | None, scheduler: str | None, repeats: int
) -> StudyConfig:
    suffixes = [re.sub(r"[^A-Za-z0-9_]+", "-", text) for text in (sampler, scheduler) if text]
    data: dict[str, Any] = {
        **study.to_dict(),
        "name": ".".join([study.name, *suffixes]),
        "repeats": repeats,
        "flow": "rolling",
        "reproducible": False,
    }
    try:
        if sampler is not None:
            data["sampler"] = _policy(sampler, study.sampler)
        if scheduler is not None:
            data["scheduler"] = _policy(scheduler, study.scheduler)
            steps = study.create_scheduler().max_steps
            if steps is not None:
                name, options = data["scheduler"].pop("name"), data["scheduler"]
                data["scheduler"] = {"name": name, **with_max_steps(name, options, steps)}
    except ValueError as error:
        raise CommandError(str(error)) from error
    return parse_study(data, source=data["name"])


def _policy(text: str, own: Policy) -> dict[str, Any]:
    """Parses ``name:key=value`` into a policy's section of a study file.

    Args:
        text: The policy's name, with options after a colon.
        own: The study's own policy, whose options are used if the text is only that policy's name.
    """
    name, options = parse_options(text)
    if name == own.name and not options:
        options = own.options
    return {"name": name, **options}


def _run(
    session: Session, made: Sequence[StudyConfig], *, source: str, is_quiet: bool
) -> list[Experiment]:
    """Runs all variants of a study at the same time, and waits until all have ended.

    Returns the repeats of each variant as an experiment.

    Raises:
        CommandError: The DAG run of a variant ended without starting its study.
    """
    console = err if is_quiet else out
    started: list[tuple[Target, str]] = []
    for variant in made:
        target = generic_dag_target(variant)
        session.airflow.wait_for_dag(target.dag_id, seconds=DAG_SECONDS)
        started.append((target, session.airflow.trigger(target.dag_id, target.conf)))
    names = " ".join(variant.name for variant in made)
    console.print(f"Started {len(made)} studies with {made[0].repeats} repeats each")
    console.print(f"If this command is interrupted: hpo compare {names}", soft_wrap=True)
    follow_runs(session, console, [(target.dag_id, run_id) for target, run_id in started])
    found = []
    for target, run_id in started:
        try:
            study = session.gateway.find(target.name, run_id, dag_id=target.dag_id)
        except LookupError:
            why = session.airflow.failure_of(target.dag_id, run_id, "prepare")
            raise CommandError(f"study {target.name} of {source} was not started: {why}") from None
        follow_repeats(session, console, study)
        found.append(session.gateway.experiment(study.id))
    return found


def rank_experiments(found: Sequence[Experiment]) -> list[Standing]:
    """Ranks experiments by the best values of their repeats, best first.

    Raises:
        CommandError: The experiments have different metrics, no repeat of an experiment has
            ended with a value, or two experiments are of the same study.
    """
    metrics = {(item.metric, item.direction) for item in found}
    if len(metrics) > 1:
        listed = ", ".join(f"{name} ({direction})" for name, direction in sorted(metrics))
        raise CommandError(f"the studies have different metrics: {listed}")
    without = [item.study for item in found if not item.outcomes]
    if without:
        raise CommandError(f"no repeat of {', '.join(without)} has ended with a value yet")
    if len({item.study for item in found}) < len(found):
        raise CommandError("the same study is given twice")
    return rank({item.study: item.outcomes for item in found}, Direction(found[0].direction))


def standings_table(standings: Sequence[Standing], metric: str) -> Table:
    """Returns a table of the ranked studies, best first.

    A study and the best study are compared by pairs of repeats with the same number. The column
    *Behind* is the mean difference over these pairs, *Pairs* is the number of pairs, and
    *p (Holm)* is the p-value of the difference, corrected for multiple comparisons.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Study", "Repeats", f"Best {metric}", "Behind", "Pairs", "p (Holm)"):
        table.add_column(column, overflow="fold")
    for item in standings:
        table.add_row(
            item.name,
            str(item.estimate.repeats),
            estimate_text(item.estimate),
            "" if item.behind is None else f"{item.behind:.4g}",
            "" if item.behind is None else str(item.pairs),
            "" if item.chance is None else f"{item.chance:.3g}",
        )
    return table


def _conclusion(standings: Sequence[Standing]) -> str:
    first, *others = standings
    beaten = [item.name for item in others if item.chance is not None and item.chance < 0.05]
    if not beaten:
        return f"{first.name} is ahead, but not significantly (p is 0.05 or more)"
    return f"{first.name} is significantly better than {', '.join(beaten)} (p < 0.05)"


def _to_json(found: Sequence[Experiment], standings: Sequence[Standing]) -> dict[str, Any]:
    return {
        "metric": found[0].metric,
        "direction": found[0].direction,
        "standings": [asdict(item) for item in standings],
        "experiments": [
            {"study": item.study, "run_id": item.run_id, "outcomes": item.outcomes}
            for item in found
        ],
    }
