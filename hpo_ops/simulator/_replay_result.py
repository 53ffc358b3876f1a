"""Defines the result of a replay (a simulated study): its log, segments and totals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from hpo_ops.core import Study


class Event(NamedTuple):
    """An entry of a replay's log: what happened to a trial or to the cluster, when and why.

    In an entry about a change of capacity, `trial` is None and `step` is the number of
    resource units.
    """

    time: float
    kind: str
    trial: int | None
    step: int
    reason: str


class Interval(NamedTuple):
    """A segment (one uninterrupted execution of a trial): its times, resource units and steps.

    `width` is the number of units, or a fraction below 1 where trials shared a unit.
    """

    trial: int
    start: float
    end: float
    width: Fraction
    units: tuple[int, ...]
    from_step: int
    to_step: int


as_interval: Callable[[tuple[int, float, float, Fraction, tuple[int, ...], int, int]], Interval]
as_interval = partial(tuple.__new__, Interval)
"""Creates an `Interval` from a tuple of its fields, in half the time of calling the class."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The result of replaying a study. Times are virtual seconds since the study started.

    Attributes:
        study: The study in its final state.
        log: The fields of all log entries, in order; `entries` returns them as `Event`.
        intervals: All segments of all trials.
        makespan: Seconds until the last segment ended.
        time_to_target: Seconds until the target was reached; None if it was not reached.
        best: Pairs of a time and the best value from that time on.
        capacity: Pairs of a time and the number of resource units from that time on.
        events: Number of reports that were processed.
        restarts: Number of times a running segment was restarted because its width changed.
        forecasts: Number of requested forecasts of learning curves.
    """

    study: Study
    log: tuple[tuple[float, str, int | None, int, str], ...]
    intervals: tuple[Interval, ...]
    makespan: float
    time_to_target: float | None
    best: tuple[tuple[float, float], ...]
    capacity: tuple[tuple[float, int], ...]
    events: int
    restarts: int
    forecasts: int

    def entries(self) -> Iterator[Event]:
        """Iterates over the entries of the log."""
        return (Event(*entry) for entry in self.log)

    def to_jsonl(self) -> str:
        """Returns the log as JSON lines; equal replays give the same text."""
        return "".join(json.dumps(entry._asdict()) + "\n" for entry in self.entries())

    @property
    def unit_seconds(self) -> float:
        """The sum over all segments of width times duration in seconds."""
        return sum(float(item.width) * (item.end - item.start) for item in self.intervals)

    @property
    def utilization(self) -> float:
        """The share of the available unit-seconds that segments held, until the makespan."""
        available = 0.0
        changes = [*self.capacity, (self.makespan, 0)]
        for (start, units), (end, _) in pairwise(changes):
            available += units * max(min(end, self.makespan) - start, 0.0)
        return self.unit_seconds / available if available else 0.0

    def time_to(self, value: float) -> float | None:
        """Returns the seconds until the objective reached a value, or None if it did not."""
        direction = self.study.goal.direction
        wanted = direction.to_score(value)
        return next((time for time, best in self.best if direction.to_score(best) >= wanted), None)
