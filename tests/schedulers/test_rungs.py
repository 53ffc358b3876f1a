"""Rungs, and the queues of trials that are paused there."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core import Trial
from hpo_ops.schedulers.rungs import PausedQueue, ordinal, rung_steps


@pytest.mark.parametrize(
    ("options", "expected"),
    [((1, 81, 3), (1, 3, 9, 27, 81)), ((2, 200, 4), (2, 8, 32, 128)), ((5, 5, 2), (5,))],
)
def test_rungs_are_counted_with_integers(
    options: tuple[int, int, int], expected: tuple[int, ...]
) -> None:
    assert rung_steps(*options) == expected


@given(st.integers(1, 50), st.integers(0, 9), st.integers(2, 10))
def test_no_rung_is_lost(r: int, power: int, eta: int) -> None:
    rungs = rung_steps(r, r * eta**power, eta)
    assert len(rungs) == power + 1
    assert rungs[-1] == r * eta**power


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"),
     (21, "21st"), (102, "102nd"), (111, "111th")],
)  # fmt: skip
def test_ordinals_are_english(number: int, text: str) -> None:
    assert ordinal(number) == text


moves = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=60)


@given(moves)
def test_a_queue_of_paused_trials_is_sorted_whoever_comes_and_goes(
    seen: list[tuple[int, int]],
) -> None:
    queue, waiting = PausedQueue(), dict[int, float]()
    for number, score in seen:
        if number in waiting:
            queue.remove(number)
            del waiting[number]
        else:
            queue.add(float(score), Trial(number))
            waiting[number] = float(score)
        expected = sorted(waiting, key=lambda number: (-waiting[number], number))
        assert [trial.number for _, trial in queue] == expected
        assert queue.top == max(waiting.values(), default=-math.inf)
