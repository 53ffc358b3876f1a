"""The task of a local trial whose gateway goes away when the segment ends."""

from __future__ import annotations

from typing import Any

import pytest

from hpo_ops.airflow import trial_task
from hpo_ops.client import (
    GatewayUnreachableError,
    NextAction,
    NextActionKind,
    StudyHandle,
    TrialResult,
)
from hpo_ops.config import parse_study
from hpo_ops.core import TrialState
from hpo_ops.protocol import Assignment, Outcome, Report, SegmentResult
from hpo_ops.runners import task_with_agent as module
from hpo_ops.runners.local.operator import TrialOperator
from hpo_ops.runners.segment_with_agent import FinishedSegment
from tests.studies import study_data

ASSIGNMENT = Assignment(study="s", trial=0, segment="ab", params={"lr": 0.1}, metrics=["accuracy"])


class Instance:
    """A task instance that keeps what is pushed."""

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}
        self.rendered_map_index = ""

    def xcom_push(self, *, key: str, value: Any) -> None:
        self.pushed[key] = value


class GatewayThatGoesAway:
    """Gives out a segment, and does not answer when it has ended."""

    url = "http://gateway"

    def __init__(self, study: StudyHandle) -> None:
        self.study = study

    def next_action(self, *_: object, **__: object) -> NextAction:
        return NextAction(
            kind=NextActionKind.RUN,
            reason="",
            assignment=ASSIGNMENT,
            token="t",  # noqa: S106
            study=self.study,
        )

    def finish_segment(self, *_: object) -> None:
        raise GatewayUnreachableError("nobody answers")


def run(monkeypatch: pytest.MonkeyPatch, outcome: Outcome) -> Instance:
    config = parse_study(study_data(scheduler="default"), source="test").to_json()
    study = StudyHandle(id=1, name="s", run_id="r", key="s/r", config=config)
    reports = [Report(step=1, metrics={"accuracy": 0.8})]
    end = FinishedSegment(SegmentResult(outcome=outcome, step=1), None, reports, reports)
    monkeypatch.setattr(trial_task, "connect_gateway", lambda: GatewayThatGoesAway(study))
    monkeypatch.setattr(module, "run_segment", lambda *_, **__: end)
    monkeypatch.setattr(module, "open_checkpoints", lambda _: None)
    monkeypatch.setattr(TrialOperator, "dag_id", "small")
    instance = Instance()
    context: Any = {"ti": instance, "run_id": "r"}
    TrialOperator(task_id="trial").execute(context)
    return instance


def test_the_task_succeeds_and_its_score_goes_by_xcom(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = run(monkeypatch, Outcome.COMPLETED)
    score = TrialResult.from_dict(instance.pushed["return_value"])
    assert (score.state, score.value) == (TrialState.COMPLETED, 0.8)
    assert score.unconfirmed is not None
    assert score.unconfirmed.segment == "ab"
    assert len(score.unconfirmed.reports) == 1


def test_a_task_that_needs_the_gateway_to_go_on_fails_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(GatewayUnreachableError):
        run(monkeypatch, Outcome.PREEMPTED)
