"""``hpo experiment``: the repeats of a study, their mean, and how sure it is."""

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
    Path | None, typer.Option(help="Draw the best so far, with its band, to this file.")
]


def experiment(
    study: StudyName, run_id: Run = None, plot: Plot = None, as_json: Json = False
) -> None:
    """Shows the repeats of a study: mean, deviation, and how the best so far grew."""
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
        out.print(f"Drawn: {plot}", soft_wrap=True)


def experiment_json(found: Experiment) -> dict[str, Any]:
    """An experiment for scripts."""
    values = list(found.outcomes.values())
    return {
        **found.to_dict(),
        "outcome": asdict(estimate(values)) if values else None,
        "best_so_far": {ended: asdict(point) for ended, point in band(_curves(found)).items()},
    }


def experiment_lines(found: Experiment) -> list[str]:
    """An experiment in two lines."""
    values = list(found.outcomes.values())
    lines = [f"{found.study}  {len(values)} of {found.wanted} repeats have ended with a value"]
    if values:
        lines.append(f"Best {found.metric}:  {estimate_text(estimate(values))}")
    return lines


def estimate_text(made: Estimate) -> str:
    """``0.8075 ± 0.01708 (95 %: 0.7803 to 0.8347)``; the sample deviation comes after ±."""
    if made.deviation is None:
        return f"{made.mean:.4g}"
    return (
        f"{made.mean:.4g} ± {made.deviation:.4g} "
        f"({LEVEL * 100:g} %: {made.low:.4g} to {made.high:.4g})"
    )


def repeats_table(found: Experiment) -> Table:
    """The repeats, by number."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Repeat", "Seed", "State", "Ended", found.metric, "Run"):
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
    """Waits until all of some DAG runs have ended; True where all ended well."""
    states: dict[tuple[str, str], str] = {}
    said = -1
    while True:
        for run in runs:
            if states.get(run) not in ENDED:
                states[run] = session.airflow.run_state(*run)
        done = sum(state in ENDED for state in states.values())
        if done != said:
            said = done
            console.print(f"{done}/{len(runs)} runs have ended")
        if done == len(runs):
            return all(state == "success" for state in states.values())
        time.sleep(POLL_SECONDS)


def follow_repeats(session: Session, console: Console, study: Progress) -> bool:
    """Waits for all repeats of a study, if it has any."""
    found = session.gateway.experiment(study.id)
    if found.wanted == 1:
        return True
    runs = [(found.dag_id, found.run_of(number)) for number in range(found.wanted)]
    return follow_runs(session, console, runs)


def end_lines(session: Session, study: Progress) -> list[str]:
    """What there is to say of a study's repeats at its end; nothing where it has none."""
    found = session.gateway.experiment(study.id)
    return experiment_lines(found) if found.wanted > 1 else []


def end_json(session: Session, study: Progress) -> dict[str, Any]:
    """The same for scripts."""
    found = session.gateway.experiment(study.id)
    return {"experiment": experiment_json(found)} if found.wanted > 1 else {}


def draw_bands(found: Mapping[str, Experiment], path: Path) -> None:
    """Draws the mean of the best so far over the trials that have ended, with its interval.

    Raises:
        CommandError: There is nothing to draw, or nothing to draw with.
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
        lows = [_or(point.low, point.mean) for point in points.values()]
        highs = [_or(point.high, point.mean) for point in points.values()]
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
        raise CommandError(f"{path}: cannot be written: {error}") from error


def _curves(found: Experiment) -> list[list[float | None]]:
    return [repeat.curve for repeat in found.repeats]


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
