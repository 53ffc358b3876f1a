"""What is going to happen, in the order of time; what is planned first comes first in a tie."""

from __future__ import annotations

from enum import IntEnum
from heapq import heappush
from itertools import count


class Kind(IntEnum):
    """What happens."""

    REPORT = 0
    CAPACITY = 1
    PREEMPT = 2


REPORT = Kind.REPORT  # a member is looked up slowly, and this is nearly every event


class EventQueue:
    """Planned events: time, kind, and two numbers that depend on the kind."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Kind, int, int]] = []
        """Time, when it was planned, kind, and its two numbers; `heappop` takes the next out."""
        self.turns = count(1)

    def push(self, time: float, kind: Kind, number: int, version: int = 0) -> None:
        """Plans an event."""
        heappush(self.heap, (time, next(self.turns), kind, number, version))

    def has(self, kind: Kind) -> bool:
        """Whether such an event is still planned."""
        return any(entry[2] is kind for entry in self.heap)
