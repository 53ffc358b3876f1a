"""What is going to happen, in the order of time; what is planned first comes first in a tie."""

from __future__ import annotations

from enum import IntEnum
from heapq import heappush


class Kind(IntEnum):
    """What happens."""

    REPORT = 0
    CAPACITY = 1
    PREEMPT = 2


class Agenda:
    """Planned events: time, kind, and two numbers that depend on the kind."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Kind, int, int]] = []
        """Time, when it was planned, kind, and its two numbers; `heappop` takes the next out."""
        self._counter = 0

    def push(self, time: float, kind: Kind, number: int, version: int = 0) -> None:
        """Plans an event."""
        self._counter = counter = self._counter + 1
        heappush(self.heap, (time, counter, kind, number, version))

    def has(self, kind: Kind) -> bool:
        """Whether such an event is still planned."""
        return any(entry[2] is kind for entry in self.heap)
