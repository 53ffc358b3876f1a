"""Queries for trials."""

from __future__ import annotations

from typing import Any

import pytest

from hpo_ops.core import Direction, TrialState
from hpo_ops.ledger import Ledger
from hpo_ops.ledger._schema import decisions, segments, trials
from hpo_ops.ledger.trial_listing import (
    count_served_trials,
    count_trials_by_state,
    find_best_trial,
    list_decisions,
    list_final_values,
    list_trials,
)
from tests.ledger.conftest import start


def add_trial(ledger: Ledger, study_id: int, number: int, **values: Any) -> None:
    row = {"study_id": study_id, "number": number, "state": "completed", "seed": number}
    given = {name: value for name, value in values.items() if value is not None}
    with ledger.begin() as connection:
        connection.execute(trials.insert().values({**row, "params": {}, **given}))


def add_segment(ledger: Ledger, study_id: int, trial: int, **values: Any) -> None:
    row = {"id": f"{study_id}-{trial}", "key": "a", "from_step": 0, "runner": "local"}
    with ledger.begin() as connection:
        connection.execute(
            segments.insert().values({**row, "study_id": study_id, "trial": trial, **values})
        )


def test_trials_are_listed_by_number_with_their_segments(ledger: Ledger) -> None:
    study_id = start(ledger).id
    for number in (2, 0, 1):
        add_trial(ledger, study_id, number, violations=[0.0, number - 1.5])
    add_segment(ledger, study_id, 1)
    add_trial(ledger, start(ledger, run_id="other").id, 0)
    with ledger.connect() as connection:
        found = list_trials(connection, study_id)
        some = list_trials(connection, study_id, numbers=range(1, 2))
    assert [trial.number for trial in found] == [0, 1, 2]
    assert [trial.segments for trial in found] == [0, 1, 0]
    assert [trial.seconds is None for trial in found] == [True, False, True]
    assert [trial.is_feasible for trial in found] == [True, True, False]
    assert [trial.number for trial in some] == [1]
    assert some[0].segments == 1


@pytest.mark.parametrize(("direction", "best"), [(Direction.MAXIMIZE, 1), (Direction.MINIMIZE, 2)])
def test_the_best_trial_is_feasible_and_the_first_of_equals(
    ledger: Ledger, direction: Direction, best: int
) -> None:
    study_id = start(ledger).id
    for number, value in enumerate((None, 0.9, 0.1, 0.9, 0.1)):
        add_trial(ledger, study_id, number, value=value, best_step=1)
    add_trial(ledger, study_id, 5, value=1.0, best_step=1, violations=[0.5])
    add_trial(ledger, study_id, 6, value=0.0, best_step=1, violations=[0.5])
    with ledger.connect() as connection:
        found = find_best_trial(connection, study_id, direction)
    assert found is not None
    assert found.number == best


def test_a_running_trial_without_an_open_segment_is_counted_as_waiting(ledger: Ledger) -> None:
    study_id = start(ledger).id
    for number in range(3):
        add_trial(ledger, study_id, number, state="running")
    add_segment(ledger, study_id, 0)
    add_segment(ledger, study_id, 1, outcome="preempted")
    with ledger.connect() as connection:
        counts = count_trials_by_state(connection, study_id)
    assert counts == {TrialState.RUNNING: 1, TrialState.WAITING: 2}


def test_served_folds_of_one_trial_count_once(ledger: Ledger) -> None:
    study_id = start(ledger).id
    served = {"study": "small/run-0", "trial": 0, "step": 3}
    for number in range(6):
        add_trial(ledger, study_id, number, served=served if number < 4 else None)
    with ledger.connect() as connection:
        assert count_served_trials(connection, study_id, fold_count=3) == 2
        assert count_served_trials(connection, study_id, fold_count=1) == 4


def test_final_values_come_in_the_order_of_the_ends(ledger: Ledger) -> None:
    study_id = start(ledger).id
    for number, (value, day) in enumerate(((0.5, 3), (0.6, 1), (0.7, 2), (0.8, None))):
        ended_at = None if day is None else f"2026-01-0{day}T00:00:00Z"
        violations = [1.0] if number == 2 else None
        add_trial(ledger, study_id, number, value=value, ended_at=ended_at, violations=violations)
    with ledger.connect() as connection:
        assert list_final_values(connection, study_id) == [0.6, None, 0.5]


def test_decisions_are_those_of_the_given_trials(ledger: Ledger) -> None:
    study_id = start(ledger).id
    with ledger.begin() as connection:
        for trial in range(4):
            connection.execute(
                decisions.insert().values(
                    study_id=study_id, trial=trial, step=trial, action="pause", reason="rung"
                )
            )
        found = list_decisions(connection, study_id, numbers=range(1, 3))
    assert [decision.step for decision in found] == [1, 2]
