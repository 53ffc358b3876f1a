"""Plots replays: ``..._of`` functions compute the numbers, ``draw_...`` functions draw them.

An order is the sequence in which the trials of a study are replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hpo_ops.simulator._replay_result import Replay
from hpo_ops.simulator.policy_comparison import Outcome

HOUR = 3600.0
TO_TARGET = "hours to the target, or to the end without"


class Utilization(NamedTuple):
    """The share of resource units (such as GPUs) in use, over the time of a study."""

    times: tuple[float, ...]
    shares: tuple[float, ...]


class Times(NamedTuple):
    """The times to the target of each policy, by name of the policy.

    Attributes:
        seconds: For each order, the seconds to the target, or to the end of the study if the
            target was not reached.
        hits: The seconds to the target, only for the orders in which it was reached.
    """

    seconds: dict[str, tuple[float, ...]]
    hits: dict[str, tuple[float, ...]]


def utilization_of(replay: Replay, points: int = 200) -> Utilization:
    """Returns the share of resource units that trials held in ``points`` equal time spans."""
    span = replay.makespan / points
    held = [0.0] * points
    for interval in replay.intervals:
        first = int(interval.start / span) if span else 0
        for index in range(first, points):
            low, high = index * span, (index + 1) * span
            if interval.end <= low:
                break
            overlap = min(interval.end, high) - max(interval.start, low)
            held[index] += float(interval.width) * max(overlap, 0.0)
    times = tuple(index * span for index in range(points))
    shares = tuple(
        amount / (_units_at(replay, time) * span) if span and _units_at(replay, time) else 0.0
        for amount, time in zip(held, times, strict=True)
    )
    return Utilization(times, shares)


def times_of(outcomes: Sequence[Outcome]) -> Times:
    """Collects the times to the target of all outcomes, by policy."""
    times = Times({}, {})
    for outcome in outcomes:
        hit = () if outcome.time_to_target is None else (outcome.time_to_target,)
        for lists, new in ((times.seconds, (outcome.seconds,)), (times.hits, hit)):
            lists[outcome.policy] = (*lists.get(outcome.policy, ()), *new)
    return times


def draw_utilization(lines: Mapping[str, Utilization], path: Path) -> None:
    """Draws the share of resource units in use over time, with one line for each policy."""
    figure, axes = _figure()
    for name, info in lines.items():
        hours = [time / HOUR for time in info.times]
        axes.step(hours, info.shares, where="post", label=name)
    axes.set(xlabel="hours", ylabel="share of units in use", ylim=(0, 1.05))
    axes.legend()
    _save(figure, path)


def draw_allocation(replay: Replay, path: Path, title: str = "") -> None:
    """Draws the segments (uninterrupted executions) of each trial over time.

    The height of a bar is proportional to the number of units that the segment held.
    """
    figure, axes = _figure()
    widest = max((float(interval.width) for interval in replay.intervals), default=1.0)
    for interval in replay.intervals:
        axes.barh(
            interval.trial,
            (interval.end - interval.start) / HOUR,
            left=interval.start / HOUR,
            height=0.9 * float(interval.width) / widest,
            color=f"C{interval.trial % 10}",
        )
    axes.set(xlabel="hours", ylabel="trial", title=title)
    axes.invert_yaxis()
    _save(figure, path)


def draw_times(times: Times, path: Path) -> None:
    """Draws a box plot of the times to the target over all orders, one box for each policy."""
    figure, axes = _figure()
    axes.boxplot(
        [[second / HOUR for second in seconds] for seconds in times.seconds.values()],
        tick_labels=[
            f"{name}\nreached {len(times.hits[name])}/{len(seconds)}"
            for name, seconds in times.seconds.items()
        ],
    )
    axes.set(ylabel=TO_TARGET, ylim=(0, None))
    _save(figure, path)


def draw_sensitivity(lines: Mapping[str, Sequence[tuple[int, float]]], path: Path) -> None:
    """Draws the mean time to the target over the number of units, with one line for each policy.

    Args:
        lines: Pairs of a number of resource units and the mean seconds, by name of the policy.
        path: The image file to write.
    """
    figure, axes = _figure()
    for name, points in lines.items():
        units, seconds = zip(*points, strict=True)
        axes.plot(units, [second / HOUR for second in seconds], marker="o", label=name)
    axes.set(xlabel="units", ylabel=TO_TARGET, ylim=(0, None))
    axes.legend()
    _save(figure, path)


def draw_orders(times: Times, path: Path) -> None:
    """Draws, over time, the share of orders in which each policy has reached the target."""
    figure, axes = _figure()
    end = max(max(seconds) for seconds in times.seconds.values()) / HOUR
    for name, seconds in times.seconds.items():
        hours = sorted(second / HOUR for second in times.hits[name])
        shares = [done / len(seconds) for done in range(1, len(hours) + 1)]
        last = shares[-1] if shares else 0.0
        axes.step([0.0, *hours, end], [0.0, *shares, last], where="post", label=name)
    axes.set(xlabel="hours", ylabel="share of orders at the target", ylim=(0, 1.05))
    axes.legend()
    _save(figure, path)


def _units_at(replay: Replay, time: float) -> int:
    units = 0
    for start, count in replay.capacity:
        if start <= time:
            units = count
    return units


def _figure() -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # an extra: only plots need it

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    return figure, figure.add_subplot()


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
