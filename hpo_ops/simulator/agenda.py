"""What is going to happen, in the order of time; what is planned first comes first in a tie."""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush


class Kind(IntEnum):
    """What happens."""

    REPORT = 0
    CAPACITY = 1
    PREEMPT = 2


class Agenda:
    """Planned events: time, kind, and two numbers that depend on the kind."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Kind, int, int]] = []
        self._counter = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, time: float, kind: Kind, number: int, version: int = 0) -> None:
        """Plans an event."""
        self._counter = counter = self._counter + 1
        heappush(self._heap, (time, counter, kind, number, version))

    def pop(self) -> tuple[float, int, Kind, int, int]:
        """Takes the next event out: its time, when it was planned, and what it is."""
        return heappop(self._heap)

    def has(self, kind: Kind) -> bool:
        """Whether such an event is still planned."""
        return any(entry[2] is kind for entry in self._heap)
