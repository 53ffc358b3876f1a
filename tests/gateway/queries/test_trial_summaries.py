"""Trials aggregated from their folds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from hpo_ops.client import TrialSummary
from hpo_ops.config import parse_study
from hpo_ops.core import TrialState
from hpo_ops.gateway.queries._trial_summaries import aggregate_folds, mean_metrics
from hpo_ops.ledger import StudyRecord, StudyState
from hpo_ops.protocol import Provenance
from tests.studies import study_data

COMPLETED, RUNNING = TrialState.COMPLETED, TrialState.RUNNING


def study(state: StudyState = StudyState.RUNNING) -> StudyRecord:
    return StudyRecord(
        id=1,
        name="small",
        run_id="run",
        dag_id="small",
        key="small/run",
        config=parse_study(
            study_data(folds=3, flow="rolling", scheduler="default"), source="test"
        ),
        state=state,
        reason="",
        started_at=datetime.now(UTC),
        ended_at=None,
        result=None,
        origin=Provenance(),
    )


def fold(
    number: int,
    state: TrialState,
    *,
    reason: str = "",
    metrics: Mapping[str, float] | None = None,
) -> TrialSummary:
    return TrialSummary(
        trial=number,
        state=state,
        reason=reason,
        step=2,
        value=0.5,
        best_step=2,
        params={"lr": 0.1},
        segments=1,
        seconds=10.0,
        metrics=dict(metrics or {}),
    )


def test_the_value_is_the_best_mean_of_the_completed_folds() -> None:
    folds = [fold(3, COMPLETED), fold(4, COMPLETED), fold(5, RUNNING)]
    curves = {3: {1: 0.5, 2: 0.9}, 4: {1: 0.7, 2: 0.1}, 5: {1: 0.0}}
    trial = aggregate_folds(study(), 1, folds, curves)
    assert (trial.trial, trial.state, trial.best_step) == (1, RUNNING, 1)
    assert trial.value == pytest.approx(0.6)
    assert [part.value for part in trial.folds] == [0.5, 0.7, 0.5]
    assert (trial.segments, trial.seconds) == (3, 30.0)
    assert trial.reason == "2 of 3 folds completed"


def test_completed_folds_without_a_common_step_have_no_value() -> None:
    folds = [fold(number, COMPLETED) for number in range(3)]
    trial = aggregate_folds(study(), 0, folds, {0: {1: 0.5}, 1: {2: 0.5}})
    assert (trial.state, trial.value) == (COMPLETED, None)
    assert trial.reason == "all 3 folds completed, but have reported no step in common"


def test_a_failed_fold_gives_the_reason() -> None:
    folds = [fold(0, COMPLETED), fold(1, TrialState.FAILED, reason="boom"), fold(2, COMPLETED)]
    trial = aggregate_folds(study(), 0, folds, {})
    assert (trial.state, trial.reason) == (TrialState.FAILED, "fold 2 of 3 failed: boom")


@pytest.mark.parametrize(
    ("state", "expected"),
    [(StudyState.RUNNING, TrialState.WAITING), (StudyState.ENDED, TrialState.PRUNED)],
)
def test_a_trial_without_all_of_its_folds_is_pruned_when_the_study_is_over(
    state: StudyState, expected: TrialState
) -> None:
    trial = aggregate_folds(study(state), 0, [fold(0, COMPLETED)], {0: {1: 0.5}})
    assert trial.state is expected


def test_only_metrics_of_all_folds_have_a_mean() -> None:
    folds = [
        fold(0, COMPLETED, metrics={"accuracy": 0.5, "loss": 2.0}),
        fold(1, COMPLETED, metrics={"accuracy": 1.0}),
    ]
    assert mean_metrics(folds) == {"accuracy": 0.75}
