"""The task of a trial against a gateway that is not there."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from hpo_ops.airflow import trial_task as module
from hpo_ops.client import NextAction, NextActionKind, Retraining, StudyHandle, TrialResult
from hpo_ops.config import parse_study
from hpo_ops.core import TrialState
from hpo_ops.runners.local.operator import TrialOperator
from tests.studies import study_data

CONFIG = parse_study(study_data(folds=3, scheduler="default"), source="test").to_json()
HANDLE = StudyHandle(id=4, name="small", run_id="r", key="small/r", config=CONFIG)


class FakeGateway:
    """Retrains nothing, or a trial that is done when it asks for its turn."""

    def __init__(self, retraining: Retraining, score: TrialResult | None = None) -> None:
        self.retraining = retraining
        self.score = score
        self.asked: list[int] = []

    def retrain(self, study_id: int) -> Retraining:
        assert study_id == HANDLE.id
        return self.retraining

    def next_action(self, dag_id: str, run_id: str, trial: int, **_: object) -> NextAction:
        self.asked.append(trial)
        return NextAction(kind=NextActionKind.DONE, reason="", score=self.score, study=HANDLE)


class FakeInstance:
    """A task instance that keeps what is handed on."""

    def __init__(self, handle: StudyHandle | None = HANDLE) -> None:
        self.handle = handle
        self.pushed: dict[str, Any] = {}
        self.rendered_map_index: str | None = None

    def xcom_pull(self, **_: object) -> dict[str, Any] | None:
        return self.handle and self.handle.to_dict()

    def xcom_push(self, *, key: str, value: Any) -> None:
        self.pushed[key] = value


def execute(
    monkeypatch: pytest.MonkeyPatch, gateway: FakeGateway, instance: FakeInstance, **given: Any
) -> None:
    monkeypatch.setattr(module, "connect_gateway", lambda: gateway)
    monkeypatch.setattr(TrialOperator, "dag_id", "small")
    context: Any = {"ti": instance, "run_id": "r"}
    TrialOperator(task_id="trial", **given).execute(context)


def test_the_retraining_asks_which_trial_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    score = TrialResult(
        trial=9, state=TrialState.COMPLETED, reason="", value=0.9, params={"lr": 0.1}
    )
    gateway = FakeGateway(Retraining(trial=9, reason="trial 2 is trained on all data"), score)
    instance = FakeInstance()
    execute(monkeypatch, gateway, instance, is_retraining=True)
    assert gateway.asked == [9]
    assert instance.pushed["return_value"]["value"] == 0.9
    assert instance.rendered_map_index is None  # it is no fold


@pytest.mark.parametrize(
    ("handle", "reason"),
    [
        (HANDLE, "nothing is retrained: no trial has all of its folds"),
        (None, "the study was never entered: nothing is retrained"),
    ],
)
def test_without_anything_to_retrain_the_task_is_skipped(
    monkeypatch: pytest.MonkeyPatch, handle: StudyHandle | None, reason: str
) -> None:
    gateway = FakeGateway(Retraining(reason="no trial has all of its folds"))
    with pytest.raises(AirflowSkipException, match=reason):
        execute(monkeypatch, gateway, FakeInstance(handle), is_retraining=True)
    assert gateway.asked == []


def test_a_fold_of_a_study_that_the_dag_does_not_know_is_labelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    score = TrialResult(trial=7, state=TrialState.PRUNED, reason="worse", params={"lr": 0.1})
    instance = FakeInstance()
    with pytest.raises(AirflowSkipException, match="worse"):
        execute(monkeypatch, FakeGateway(Retraining(reason=""), score), instance, number=7)
    assert instance.rendered_map_index == "2 fold 2/3: lr=0.1"
