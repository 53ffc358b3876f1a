"""Queries for checkpoints."""

from __future__ import annotations

import pytest

from hpo_ops.core import Direction, TrialState
from hpo_ops.ledger import Ledger
from hpo_ops.ledger._schema import checkpoints, reports
from hpo_ops.ledger.checkpoint_ranking import (
    find_best_checkpoint,
    list_checkpoints,
    rank_checkpoints,
)
from tests.ledger.conftest import start
from tests.ledger.test_trial_listing import add_trial

VALUES = {(0, 1): 0.5, (0, 2): 0.7, (0, 3): 0.7, (1, 1): 0.9, (1, 2): 0.1}
"""Reported values by trial and step, each with a checkpoint."""


@pytest.fixture
def study_id(ledger: Ledger) -> int:
    study_id = start(ledger).id
    add_trial(ledger, study_id, 0)
    add_trial(ledger, study_id, 1, state="paused")
    with ledger.begin() as connection:
        for (trial, step), value in VALUES.items():
            place = {"study_id": study_id, "trial": trial, "step": step, "segment_id": "s"}
            connection.execute(
                reports.insert().values(**place, value=value, metrics={}, seconds=1.0)
            )
            connection.execute(
                checkpoints.insert().values(**place, uri=f"/{trial}/{step}", files=1, bytes=1)
            )
        # A checkpoint without a report has no value, and so no rank.
        connection.execute(
            checkpoints.insert().values(**{**place, "step": 9}, uri="/1/9", files=1, bytes=1)
        )
    return study_id


def test_checkpoints_are_listed_by_trial_and_step(ledger: Ledger, study_id: int) -> None:
    with ledger.connect() as connection:
        found = list_checkpoints(connection, study_id)
    assert [(item.trial, item.step) for item in found] == [*VALUES, (1, 9)]


def test_checkpoints_are_ranked_by_the_value_at_their_step(ledger: Ledger, study_id: int) -> None:
    with ledger.connect() as connection:
        ranked = rank_checkpoints(connection, study_id, Direction.MAXIMIZE)
    assert [(item.trial, item.step) for item in ranked] == [(1, 1), (0, 2), (0, 3), (0, 1), (1, 2)]
    assert ranked[0].trial_state is TrialState.PAUSED


@pytest.mark.parametrize(("direction", "step"), [(Direction.MAXIMIZE, 2), (Direction.MINIMIZE, 1)])
def test_the_best_checkpoint_is_the_earliest_of_equals(
    ledger: Ledger, study_id: int, direction: Direction, step: int
) -> None:
    with ledger.connect() as connection:
        best = find_best_checkpoint(connection, study_id, 0, direction)
        assert find_best_checkpoint(connection, study_id, 7, direction) is None
    assert best is not None
    assert best.step == step
