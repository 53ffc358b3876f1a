"""Queues the events of a simulation by time; events of equal time stay in insertion order."""

from __future__ import annotations

from enum import IntEnum
from heapq import heappush
from itertools import count


class Kind(IntEnum):
    """The kind of an event: a report, a change of capacity, or a preemption."""

    REPORT = 0
    CAPACITY = 1
    PREEMPT = 2


REPORT = Kind.REPORT  # a global is faster than an enum member, and most events are reports


class EventQueue:
    """A heap of scheduled events.

    Each event has two numbers whose meaning depends on its kind: trial number and segment version
    for a report; number of resource units and 0 for a change of capacity; 0 and 0 for a
    preemption.
    """

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Kind, int, int]] = []
        """Time, sequence number, kind and both numbers of each event, as a heap for `heapq`."""
        self.counter = count(1)

    def push(self, time: float, kind: Kind, number: int, version: int = 0) -> None:
        """Schedules an event at a virtual time."""
        heappush(self.heap, (time, next(self.counter), kind, number, version))

    def has(self, kind: Kind) -> bool:
        """Returns whether an event of this kind is still scheduled."""
        return any(entry[2] is kind for entry in self.heap)
