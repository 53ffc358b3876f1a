from __future__ import annotations

from typing import Any

import pytest

from hpo_ops.config import parse_study
from hpo_ops.core import TrialState
from hpo_ops.protocol import Assignment, Outcome, Report, SegmentResult
from hpo_ops.runners._unconfirmed_score import unconfirmed_score
from hpo_ops.runners.segment_with_agent import FinishedSegment
from tests.studies import study_data

ASSIGNMENT = Assignment(study="s", trial=4, segment="ab", params={"lr": 0.1}, metrics=["accuracy"])
REPORTS = [Report(step=step, metrics={"accuracy": value}) for step, value in ((1, 0.7), (2, 0.6))]


def score(result: SegmentResult, **changes: Any) -> Any:
    config = parse_study(study_data(scheduler="default", **changes), source="test")
    return unconfirmed_score(
        config, ASSIGNMENT, FinishedSegment(result, None, REPORTS[1:], REPORTS)
    )


def test_the_score_has_the_best_value_of_the_segment_and_its_end() -> None:
    result = SegmentResult(outcome=Outcome.COMPLETED, step=2)
    found = score(result)
    assert (found.trial, found.state, found.step) == (4, TrialState.COMPLETED, 2)
    assert (found.value, found.best_step) == (0.7, 1)
    assert (found.unconfirmed.segment, found.unconfirmed.result) == ("ab", result)
    assert found.unconfirmed.reports == REPORTS[1:]


def test_the_least_value_is_the_best_where_the_metric_is_minimized() -> None:
    metric = {"name": "accuracy", "direction": "minimize"}
    assert score(SegmentResult(outcome=Outcome.STOPPED, step=2), metric=metric).value == 0.6


@pytest.mark.parametrize(
    ("outcome", "retries", "state"),
    [
        (Outcome.STOPPED, 0, TrialState.PRUNED),
        (Outcome.FAILED, 0, TrialState.FAILED),
        (Outcome.FAILED, 1, None),  # only the gateway knows which attempt it was
        (Outcome.PAUSED, 0, None),
        (Outcome.PREEMPTED, 0, None),
    ],
)
def test_only_the_end_of_a_trial_can_do_without_the_gateway(
    outcome: Outcome, retries: int, state: TrialState | None
) -> None:
    found = score(SegmentResult(outcome=outcome, step=2), retries=retries)
    assert (found and found.state) == state
