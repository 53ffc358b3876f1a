"""``hpo experiment``: shows the repeats of a study, with mean and confidence interval.

An experiment is a study that is repeated with several seeds. The result of a repeat is its best
value.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import Session, connect
from hpo_ops.cli.follow_study import ENDED, POLL_SECONDS
from hpo_ops.cli.terminal import Json, Run, StudyName, out, print_json
from hpo_ops.client import Experiment, Progress
from hpo_ops.core.experiment_statistics import LEVEL, Estimate, band, estimate

EPILOG = "Example: hpo experiment digits --plot digits.png"
Plot = Annotated[
    Path | None,
    typer.Option(help="Draw the best value so far, with its confidence band, to this file."),
]


def experiment(
    study: StudyName, run_id: Run = None, plot: Plot = None, as_json: Json = False
) -> None:
    """Shows the repeats of a study: each result, their mean, deviation and confidence interval."""
    session = connect()
    found = session.gateway.experiment(session.study(study, run_id).id)
    if plot is not None:
        draw_bands({found.study: found}, plot)
    if as_json:
        print_json(experiment_json(found))
        return
    for line in experiment_lines(found):
        out.print(line, soft_wrap=True)
    out.print(repeats_table(found))
    if plot is not None:
        out.print(f"Plot: {plot}", soft_wrap=True)


def experiment_json(found: Experiment) -> dict[str, Any]:
    """Returns an experiment as JSON data.

    The data has the repeats, the estimate of their results (mean, standard deviation and
    confidence interval; None if no repeat has a result) and, for each number of ended trials, the
    estimate of the best value so far.
    """
    values = list(found.outcomes.values())
    return {
        **found.to_dict(),
        "outcome": asdict(estimate(values)) if values else None,
        "best_so_far": {ended: asdict(point) for ended, point in band(_curves(found)).items()},
    }


def experiment_lines(found: Experiment) -> list[str]:
    """Returns lines on an experiment: how many repeats have a result, and the results' estimate.

    The estimate is their mean, standard deviation and confidence interval. Its line is left out if
    no repeat has a result.
    """
    values = list(found.outcomes.values())
    lines = [f"{found.study}  {len(values)} of {found.wanted} repeats have ended with a value"]
    if values:
        lines.append(f"Best {found.metric}:  {estimate_text(estimate(values))}")
    return lines


def estimate_text(made: Estimate) -> str:
    """Formats an estimate of a mean as ``0.8075 ± 0.01708 (95 %: 0.7803 to 0.8347)``.

    The number after ± is the sample standard deviation; the interval is the confidence interval of
    the mean. An estimate without a deviation is formatted as the mean only.
    """
    if made.deviation is None:
        return f"{made.mean:.4g}"
    return (
        f"{made.mean:.4g} ± {made.deviation:.4g} "
        f"({LEVEL * 100:g} %: {made.low:.4g} to {made.high:.4g})"
    )


def repeats_table(found: Experiment) -> Table:
    """Returns a table of an experiment's repeats with seed, state, ended trials and best value."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Repeat", "Seed", "State", "Trials ended", found.metric, "Run"):
        table.add_column(column, overflow="fold")
    for repeat in found.repeats:
        table.add_row(
            str(repeat.number),
            str(repeat.seed),
            repeat.state,
            str(len(repeat.curve)),
            "" if repeat.best is None else f"{repeat.best:.5g}",
            repeat.run_id,
        )
    return table


def follow_runs(session: Session, console: Console, runs: Sequence[tuple[str, str]]) -> bool:
    """Waits until all given DAG runs have ended, and returns whether all of them succeeded.

    Args:
        session: The connections to Airflow and the gateway.
        console: Where the number of ended DAG runs is printed whenever it changes.
        runs: Pairs of a DAG id and a run id.
    """
    states: dict[tuple[str, str], str] = {}
    printed = -1
    while True:
        for run in runs:
            if states.get(run) not in ENDED:
                states[run] = session.airflow.run_state(*run)
        done = sum(state in ENDED for state in states.values())
        if done != printed:
            printed = done
            console.print(f"{done}/{len(runs)} DAG runs have ended")
        if done == len(runs):
            return all(state == "success" for state in states.values())
        time.sleep(POLL_SECONDS)


def follow_repeats(session: Session, console: Console, study: Progress) -> bool:
    """Waits until all repeats of a study have ended, and returns whether all of them succeeded.

    Returns True without waiting if the study is not repeated.
    """
    found = session.gateway.experiment(study.id)
    if found.wanted == 1:
        return True
    runs = [(found.dag_id, found.run_of(number)) for number in range(found.wanted)]
    return follow_runs(session, console, runs)


def end_lines(session: Session, study: Progress) -> list[str]:
    """Returns the lines of `experiment_lines` for an ended study.

    The list is empty if the study is not repeated.
    """
    found = session.gateway.experiment(study.id)
    return experiment_lines(found) if found.wanted > 1 else []


def end_json(session: Session, study: Progress) -> dict[str, Any]:
    """Returns the JSON data of `experiment_json` under the key ``experiment``.

    The result is empty if the study is not repeated.
    """
    found = session.gateway.experiment(study.id)
    return {"experiment": experiment_json(found)} if found.wanted > 1 else {}


def draw_bands(found: Mapping[str, Experiment], path: Path) -> None:
    """Plots the mean best value so far of each experiment over the number of ended trials.

    The band around each line is the confidence interval of the mean.

    Args:
        found: The experiments, by the names in the legend.
        path: The image file to write.

    Raises:
        CommandError: No trial has ended with a value, matplotlib is not installed, or the file
            cannot be written.
    """
    if find_spec("matplotlib") is None:
        raise CommandError("--plot needs matplotlib: install hpo-ops with the extra plots")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name, item in found.items():
        points = band(_curves(item))
        if not points:
            continue
        means = [point.mean for point in points.values()]
        lows = [point.mean if point.low is None else point.low for point in points.values()]
        highs = [point.mean if point.high is None else point.high for point in points.values()]
        label = f"{name} ({len(item.repeats)} repeats)"
        (line,) = axes.plot(list(points), means, label=label)
        axes.fill_between(list(points), lows, highs, alpha=0.2, color=line.get_color())
    if not axes.lines:
        raise CommandError("no trial has ended with a value yet: there is nothing to draw")
    metric = next(iter(found.values())).metric
    axes.set(xlabel="trials that have ended", ylabel=f"best {metric} so far")
    axes.legend()
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise CommandError(f"the plot {path} cannot be written: {error}") from error


def _curves(found: Experiment) -> list[list[float | None]]:
    return [repeat.curve for repeat in found.repeats]
