"""The queue of scheduled events."""

from __future__ import annotations

from heapq import heappop

from hpo_ops.simulator._event_queue import EventQueue, Kind


def test_events_come_by_time_and_of_one_time_in_the_order_of_scheduling() -> None:
    queue = EventQueue()
    queue.push(2.0, Kind.REPORT, 1)
    queue.push(1.0, Kind.PREEMPT, 2)
    queue.push(1.0, Kind.REPORT, 3)
    assert [heappop(queue.heap)[3] for _ in range(3)] == [2, 3, 1]


def test_a_kind_of_event_is_there_until_it_was_taken() -> None:
    queue = EventQueue()
    queue.push(1.0, Kind.CAPACITY, 4)
    assert queue.has(Kind.CAPACITY)
    assert not queue.has(Kind.PREEMPT)
    heappop(queue.heap)
    assert not queue.has(Kind.CAPACITY)
