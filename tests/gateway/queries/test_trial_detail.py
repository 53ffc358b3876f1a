"""One trial in detail: what is shown, and that nothing else is read for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.trial_detail import read_trial_detail
from hpo_ops.gateway.queries.trial_lists import list_trials
from hpo_ops.ledger import Ledger
from tests.gateway.folding import PAPER, run_rolling, start


@contextmanager
def rows_read(ledger: Ledger) -> Iterator[list[int]]:
    """How many rows each statement returns."""
    counts: list[int] = []

    def count(connection: Any, cursor: Any, *rest: Any) -> None:
        counts.append(cursor.rowcount)

    event.listen(ledger.engine, "after_cursor_execute", count)
    try:
        yield counts
    finally:
        event.remove(ledger.engine, "after_cursor_execute", count)


def test_a_trial_is_shown_as_in_the_list_and_no_other_trial_is_read(services: Gateway) -> None:
    study_id = start(services, folds=None, trials=4)
    run_rolling(services, study_id, lambda trial, fold: (0.5, 0.5 + trial / 10))
    record = services.ledger.get(study_id)
    with rows_read(services.ledger) as counts:
        detail = read_trial_detail(services.ledger, record, 2)
    assert counts == [1, 1]  # the trial and its segment
    assert detail.summary == list_trials(services.ledger, record)[2]
    assert [segment.trial for segment in detail.segments] == [2]


def test_a_trial_with_folds_is_aggregated_from_its_own_folds_alone(services: Gateway) -> None:
    study_id = start(services, folds=3, trials=4)
    run_rolling(services, study_id, lambda trial, fold: PAPER[fold])
    record = services.ledger.get(study_id)
    with rows_read(services.ledger) as counts:
        detail = read_trial_detail(services.ledger, record, 1)
    assert counts == [3, 3, 12]  # three folds, their segments, and four reports of each
    assert detail.summary == list_trials(services.ledger, record)[1]
    assert [segment.trial for segment in detail.segments] == [3, 4, 5]


def test_the_retraining_is_not_a_trial_that_can_be_looked_up(services: Gateway) -> None:
    study_id = start(services, folds={"count": 3, "retrain": True}, trials=1)
    run_rolling(services, study_id, lambda trial, fold: PAPER[fold])
    services.studies.verdict(study_id)
    services.studies.retrain(study_id)
    record = services.ledger.get(study_id)
    assert record.retraining == 3
    with pytest.raises(LookupError, match="has no trial 1"):
        read_trial_detail(services.ledger, record, 1)
