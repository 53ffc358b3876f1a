"""Draws the plots of ``hpo simulate``.

The trials are replayed in several random orders. The plots show the time to the target, the share
of orders in which the target was reached, the utilization of the machines, the allocation of
machines to trials, and the time to the target by the number of machines (slots with one GPU each).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.simulator import MemoPredictor, Replay, summarize
from hpo_ops.simulator.policy_comparison import Outcome, outcome_of
from hpo_ops.simulator.replay_plots import (
    draw_allocation,
    draw_orders,
    draw_sensitivity,
    draw_times,
    draw_utilization,
    times_of,
    utilization_of,
)

if TYPE_CHECKING:
    from hpo_ops.cli.simulate_command import Setting


def machines_around(slots: int) -> list[int]:
    """Returns the numbers of machines to compare in a plot, in ascending order.

    The numbers are a quarter, half, once, twice and four times the given number, at least 1.

    Raises:
        CommandError: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise CommandError("--plots needs matplotlib: install hpo-ops with the extra plots")
    return sorted({max(slots // 4, 1), max(slots // 2, 1), slots, 2 * slots, 4 * slots})


def draw_plots(
    setting: Setting,
    outcomes: Sequence[Outcome],
    firsts: dict[str, Replay],
    predictor: MemoPredictor,
    folder: Path,
) -> list[str]:
    """Draws all plots of a simulation into a folder and returns the paths of the files.

    Args:
        setting: The inputs of the simulation.
        outcomes: The outcomes of all replays.
        firsts: The first replay of each policy, by the policy's name.
        predictor: The predictor of learning curves, for replays on other numbers of machines.
        folder: The folder for the files.

    Raises:
        CommandError: A file cannot be written.
    """
    times = times_of(outcomes)
    drawn = [folder / "time_to_target.png", folder / "orders.png", folder / "utilization.png"]
    try:
        draw_times(times, drawn[0])
        draw_orders(times, drawn[1])
        lines = {name: utilization_of(replay) for name, replay in firsts.items()}
        draw_utilization(lines, drawn[2])
        for name, replay in firsts.items():
            drawn.append(folder / f"allocation_{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}.png")
            draw_allocation(replay, drawn[-1], name)
        drawn.append(folder / "machines.png")
        draw_sensitivity(_over_machines(setting, outcomes, predictor), drawn[-1])
    except OSError as error:
        raise CommandError(f"{folder}: cannot be written: {error.strerror}") from error
    return [str(path) for path in drawn]


def _over_machines(
    setting: Setting, outcomes: Sequence[Outcome], predictor: MemoPredictor
) -> dict[str, list[tuple[int, float]]]:
    """Replays the trials under every policy on several numbers of machines.

    Returns:
        By name of the policy, pairs of a number of machines and the mean seconds to the target.
    """
    slots = setting.cluster.units
    lines: dict[str, list[tuple[int, float]]] = {name: [] for name in setting.policies}
    for units in machines_around(slots):
        found = outcomes
        if units != slots:
            cluster = replace(setting.cluster, units=units)
            what = f"replays on {units} machines"
            found = [outcome_of(*made) for made in setting.replays(predictor, cluster, what)]
        for row in summarize(found):
            lines[row.policy].append((units, row.seconds.mean))
    return lines
