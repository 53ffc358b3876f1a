"""The queue of scheduled events: by time, then in the order in which they were scheduled."""

from __future__ import annotations

from enum import IntEnum
from heapq import heappush
from itertools import count


class Kind(IntEnum):
    """The kinds of events."""

    REPORT = 0
    CAPACITY = 1
    PREEMPT = 2


REPORT = Kind.REPORT  # a global is faster than an enum member, and most events are reports


class EventQueue:
    """A heap of scheduled events: time, kind, and two numbers that depend on the kind."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Kind, int, int]] = []
        """Time, sequence number, kind and both numbers of each event; `heappop` takes the next."""
        self.counter = count(1)

    def push(self, time: float, kind: Kind, number: int, version: int = 0) -> None:
        """Schedules an event."""
        heappush(self.heap, (time, next(self.counter), kind, number, version))

    def has(self, kind: Kind) -> bool:
        """Whether an event of this kind is still scheduled."""
        return any(entry[2] is kind for entry in self.heap)
