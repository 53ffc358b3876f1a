from __future__ import annotations

import signal

import pytest

from hpo_ops.agent.termination import Termination
from hpo_ops.protocol import Action, Control

GO = Control()
PAUSE = Control(action=Action.PAUSE)


@pytest.fixture
def termination() -> Termination:
    return Termination(grace_seconds=30, kill_seconds=5)


def test_a_training_that_continues_gets_no_signal(termination: Termination) -> None:
    assert [termination.due(GO, now) for now in (0, 100, 10_000)] == [None, None, None]


def test_a_training_that_ignores_a_request_is_terminated_then_killed(
    termination: Termination,
) -> None:
    given = {now: termination.due(PAUSE, now) for now in (0, 29, 30, 31, 34, 35, 36)}
    assert {now: number for now, number in given.items() if number is not None} == {
        30: signal.SIGTERM,
        35: signal.SIGKILL,
        36: signal.SIGKILL,
    }


def test_a_request_that_is_withdrawn_in_time_has_no_consequences(
    termination: Termination,
) -> None:
    termination.due(PAUSE, 0)
    termination.due(GO, 20)
    assert termination.due(PAUSE, 31) is None
    assert termination.due(PAUSE, 60) is None
    assert termination.due(PAUSE, 61) is signal.SIGTERM


def test_a_cancelled_training_is_terminated_at_once_and_killed_after_its_grace_period(
    termination: Termination,
) -> None:
    assert termination.due(GO, 10, is_cancelled=True) is signal.SIGTERM
    assert termination.due(GO, 39, is_cancelled=True) is None
    assert termination.due(GO, 40, is_cancelled=True) is signal.SIGKILL
