"""Tasks that bring scores by XCom to a gateway that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hpo_ops.airflow import _study_operators
from hpo_ops.airflow._sensors import EarlyStopSensor
from hpo_ops.airflow._study_operators import CollectOperator
from hpo_ops.airflow._xcom_scores import batched, pull_scores
from hpo_ops.client import AbsorbedScores, CollectedRound, StudyHandle, TrialResult
from hpo_ops.config import parse_study
from hpo_ops.core import TrialState
from tests.studies import study_data

CONFIG = parse_study(study_data(), source="test").to_json()
HANDLE = StudyHandle(id=4, name="small", run_id="r", key="small/r", config=CONFIG)


def score(trial: int) -> TrialResult:
    return TrialResult(trial=trial, state=TrialState.COMPLETED, reason="done", value=trial / 10)


class Instance:
    """A task instance that pulls the scores of mapped tasks."""

    def __init__(self, **scores: Any) -> None:
        self.scores = scores

    def xcom_pull(self, *, task_ids: str, map_indexes: list[int] | None) -> Any:
        found = self.scores.get(task_ids)
        if found is None or map_indexes is None:
            return found
        return [found[index] for index in map_indexes]


class Gateway:
    def __init__(self, compared: AbsorbedScores) -> None:
        self.compared = compared
        self.brought: list[TrialResult] = []
        self.abandoned: list[int] = []

    def collect(self, study_id: int, number: int, scores: Sequence[TrialResult]) -> CollectedRound:
        self.brought += scores
        return CollectedRound(number=number, results=list(scores), scores=self.compared)

    def lost(self, study_id: int, numbers: Sequence[int]) -> list[int]:
        return [number for number in numbers if number != 0]

    def absorb(self, study_id: int, scores: Sequence[TrialResult]) -> AbsorbedScores:
        self.brought += scores
        return self.compared

    def abandon(self, study_id: int, numbers: Sequence[int]) -> list[int]:
        self.abandoned += numbers
        return []


def test_collect_brings_the_scores_of_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway(AbsorbedScores(absorbed=[1], disagreements=["trial 0 differs"]))
    monkeypatch.setattr(_study_operators, "connect_gateway", lambda: gateway)
    collect = CollectOperator(
        task_id="collect", study=HANDLE.to_dict(), round_number=0, trial_task_id="trial"
    )
    context: Any = {"ti": Instance(trial=[score(0).to_dict(), None, score(1).to_dict()])}
    found = collect.execute(context)
    assert gateway.brought == [score(0), score(1)]
    assert [item["trial"] for item in found] == [0, 1]


def test_the_sensor_brings_only_scores_that_the_gateway_misses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sensor = EarlyStopSensor(task_id="early_stop", study=None, trial_tasks={0: "trial"})
    gateway: Any = Gateway(AbsorbedScores(absorbed=[1]))
    states = {"trial_0": "success", "trial_1": "success", "trial_2": "running"}

    class Rolling(Instance):
        def get_task_states(self, **_: object) -> dict[str, dict[str, str]]:
            return {"r": states}

    context: Any = {
        "ti": Rolling(trial=[score(number).to_dict() for number in range(3)]),
        "run_id": "r",
    }
    monkeypatch.setattr(EarlyStopSensor, "dag_id", "small")
    sensor._abandon_lost(context, gateway, HANDLE)
    assert gateway.brought == [score(1)]
    assert gateway.abandoned == [1]


def test_one_score_and_none_are_lists_too() -> None:
    one: Any = {"ti": Instance(trial=score(0).to_dict())}
    assert pull_scores(one, "trial") == [score(0)]
    none: Any = {"ti": Instance()}
    assert pull_scores(none, "trial") == []


def test_many_scores_go_in_several_requests() -> None:
    sizes = [len(part) for part in batched([score(0)] * 1100)]
    assert sizes == [500, 500, 100]
