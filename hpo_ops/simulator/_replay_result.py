"""The result of a replay."""

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
    """An entry of the log."""

    time: float
    kind: str
    trial: int | None
    step: int
    reason: str


class Interval(NamedTuple):
    """A segment of a trial: its time, its units and its steps."""

    trial: int
    start: float
    end: float
    width: Fraction
    units: tuple[int, ...]
    from_step: int
    to_step: int


as_interval: Callable[[tuple[int, float, float, Fraction, tuple[int, ...], int, int]], Interval]
as_interval = partial(tuple.__new__, Interval)
"""Makes an interval from its fields in half the time of calling the class."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A replayed study.

    Attributes:
        study: The study at its end.
        log: All events, in order; see `entries`.
        intervals: All segments.
        makespan: Seconds until the last trial ended.
        time_to_target: Seconds until the target was reached; None if it was not.
        best: Pairs of a time and the best value from then on.
        capacity: Pairs of a time and the number of units from then on.
        events: Number of reports.
        restarts: Number of restarts because of a resize.
        forecasts: Number of forecasts.
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
        """The entries of the log."""
        return (Event(*entry) for entry in self.log)

    def to_jsonl(self) -> str:
        """The log as JSON lines; the same replay gives the same text."""
        return "".join(json.dumps(entry._asdict()) + "\n" for entry in self.entries())

    @property
    def unit_seconds(self) -> float:
        """Unit-seconds that trials held."""
        return sum(float(item.width) * (item.end - item.start) for item in self.intervals)

    @property
    def utilization(self) -> float:
        """Share of the available unit-seconds, until the makespan, that trials held."""
        available = 0.0
        changes = [*self.capacity, (self.makespan, 0)]
        for (start, units), (end, _) in pairwise(changes):
            available += units * max(min(end, self.makespan) - start, 0.0)
        return self.unit_seconds / available if available else 0.0

    def time_to(self, value: float) -> float | None:
        """Seconds until a value was reached; None if it was not."""
        direction = self.study.goal.direction
        wanted = direction.to_score(value)
        return next((time for time, best in self.best if direction.to_score(best) >= wanted), None)
