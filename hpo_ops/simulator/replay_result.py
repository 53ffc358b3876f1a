"""What came out of a replay."""

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
    """One line of the log."""

    time: float
    kind: str
    trial: int | None
    step: int
    reason: str


class Interval(NamedTuple):
    """A segment of a trial: who held what, and when."""

    trial: int
    start: float
    end: float
    width: Fraction
    units: tuple[int, ...]
    from_step: int
    to_step: int


as_interval: Callable[[tuple[int, float, float, Fraction, tuple[int, ...], int, int]], Interval]
as_interval = partial(tuple.__new__, Interval)
"""Makes one of its fields in half the time that a call of the class takes."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A study as it would have gone.

    Attributes:
        study: The study at its end.
        log: Every event, in order.
        intervals: Every segment.
        makespan: Study time at which the last trial ended.
        time_to_target: Study time at which the target was reached; None if it was not.
        best: Time, and best value from then on.
        capacity: Time, and units from then on.
        events: Events of the loop.
        restarts: Segments that ended because a trial was resized.
        forecasts: Curves that were predicted.
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
        """The log with names."""
        return (Event(*entry) for entry in self.log)

    def to_jsonl(self) -> str:
        """The log as JSON lines; the same replay gives the same text."""
        return "".join(json.dumps(entry._asdict()) + "\n" for entry in self.entries())

    @property
    def unit_seconds(self) -> float:
        """Units held, times how long."""
        return sum(float(item.width) * (item.end - item.start) for item in self.intervals)

    @property
    def utilization(self) -> float:
        """Share of the units' time until the makespan that trials held."""
        available = 0.0
        changes = [*self.capacity, (self.makespan, 0)]
        for (start, units), (end, _) in pairwise(changes):
            available += units * max(min(end, self.makespan) - start, 0.0)
        return self.unit_seconds / available if available else 0.0

    def best_at(self, time: float) -> float | None:
        """The best value that was known at a time."""
        found = None
        for when, value in self.best:
            if when > time:
                break
            found = value
        return found

    def time_to(self, value: float) -> float | None:
        """The study time at which a value was reached; None if it was not."""
        direction = self.study.goal.direction
        wanted = direction.to_score(value)
        return next((time for time, best in self.best if direction.to_score(best) >= wanted), None)
