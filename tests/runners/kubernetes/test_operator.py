from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from hpo_ops.client import (
    NextAction,
    NextActionKind,
    SegmentReceipt,
    StudyHandle,
    TrialResult,
)
from hpo_ops.config import Pod, Resources, parse_study
from hpo_ops.config.pod_policy import PodPolicy
from hpo_ops.core import TrialState
from hpo_ops.protocol import Assignment, Cause, Outcome, Provenance, SegmentResult
from hpo_ops.runners.kubernetes._pod_status import Phase, PodStatus
from hpo_ops.runners.kubernetes.operator import PodSettings, TrialPodOperator
from tests.runners.kubernetes.test_pod_spec import plan
from tests.studies import study_data

TEMPLATES = Path(__file__).resolve().parents[3] / "k8s_pod_templates"


def settings(
    resources: dict[str, Any], pod: dict[str, Any] | None = None, **past: int
) -> PodSettings:
    data = study_data(runner="kubernetes", resources=resources, pod=pod or {})
    study = parse_study(data, source="test")
    assignment = Assignment(study="s/r", trial=0, segment="a", params={}, metrics=["m"])
    turn = NextAction(
        kind=NextActionKind.RUN,
        reason="",
        assignment=assignment,
        token="t",  # noqa: S106
        **past,  # type: ignore[arg-type]
    )
    return PodSettings.of(study, turn)


@pytest.fixture(autouse=True)
def _templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPO_POD_TEMPLATES", str(TEMPLATES))


@pytest.mark.parametrize(
    ("resources", "pod", "pool"),
    [
        ({"gpu": 2}, {}, "gpu"),
        ({"gpu": 0.25}, {}, "gpu-shared"),
        ({}, {}, "cpu"),  # never on a node with GPUs
        ({"gpu": 1}, {"on_demand_pool": "gpu-shared"}, "gpu-shared"),
    ],
)
def test_a_trial_leaves_spot_nodes_after_so_many_preemptions(
    resources: dict[str, Any], pod: dict[str, Any], pool: str
) -> None:
    spot = {**resources, "pool": "spot"}
    limit = {**pod, "on_demand_after": 2}
    assert settings(spot, limit, preemptions=1).resources.pool_name == "spot"
    after = settings(spot, limit, preemptions=2)
    assert after.resources.pool_name == pool
    assert after.template == settings({**resources, "pool": pool}).template


def test_memory_grows_with_each_time_that_it_did_not_suffice() -> None:
    resources = {"memory": "1Gi", "memory_on_oom": ["2Gi", "4Gi"]}
    given = [settings(resources, ooms=ooms).resources.memory for ooms in range(4)]
    assert given == ["1Gi", "2Gi", "4Gi", "4Gi"]


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        ({"namespace": "kube-system"}, "pod.namespace is 'kube-system'"),
        ({"spec": {"hostNetwork": True}}, "pod.spec.hostNetwork"),
    ],
)
def test_a_pod_that_the_policy_of_now_refuses_is_not_built(
    monkeypatch: pytest.MonkeyPatch, pod: dict[str, Any], problem: str
) -> None:
    """Whatever the ledger has: a policy may be stricter by now than when the study started."""
    monkeypatch.setattr(TrialPodOperator, "_own_namespace", lambda _: "ml")
    operator = TrialPodOperator(task_id="trial")
    lenient = PodPolicy(namespaces=("kube-*",), spec_fields=("hostNetwork",))
    operator._build({}, plan(pod=Pod(**pod), policy=lenient))
    with pytest.raises(AirflowFailException) as refused:
        operator._build({}, plan(pod=Pod(**pod)))
    assert str(refused.value).startswith(problem)


class FakeGateway:
    """Answers that the agent has reported the end already."""

    def __init__(self, counted: SegmentResult) -> None:
        self.counted = counted
        self.posted: list[tuple[SegmentResult, bool]] = []

    def finish_segment(
        self, _segment: str, result: SegmentResult, *, provenance: Provenance, is_fallback: bool
    ) -> SegmentReceipt:
        assert provenance == Provenance()
        self.posted.append((result, is_fallback))
        score = TrialResult(trial=0, state=TrialState.COMPLETED, reason="trained 9 steps")
        return SegmentReceipt(result=self.counted, score=score)


@pytest.mark.parametrize(
    ("event", "outcome", "cause"),
    [
        ({}, Outcome.PREEMPTED, Cause.EVICTED),
        ({"timeout": "waited 9 s for a node"}, Outcome.FAILED, Cause.NOT_STARTED),
        ({"unwanted": "its study is over"}, Outcome.PREEMPTED, Cause.REQUESTED),
    ],
)
def test_the_end_of_a_pod_is_posted_as_a_fallback_and_what_counts_is_handed_on(
    monkeypatch: pytest.MonkeyPatch, event: dict[str, Any], outcome: Outcome, cause: Cause
) -> None:
    counted = SegmentResult(outcome=Outcome.COMPLETED, step=9, cause=Cause.FINISHED)
    gateway = FakeGateway(counted)
    ended: list[TrialResult] = []
    monkeypatch.setattr("hpo_ops.runners.kubernetes.operator.connect_gateway", lambda: gateway)
    monkeypatch.setattr(TrialPodOperator, "find_segment", lambda *_: None)
    monkeypatch.setattr(TrialPodOperator, "end", lambda *it: ended.append(it[-1]))
    config = json.dumps(study_data(runner="kubernetes"))
    study = StudyHandle(id=1, name="s", run_id="r", key="s/r", config=config)
    operator = TrialPodOperator(task_id="trial")
    operator.come_back({}, event, "a", "ml", ooms=0, study=study.to_dict())  # type: ignore[arg-type]
    assert [(it.outcome, it.cause, mark) for it, mark in gateway.posted] == [
        (outcome, cause, True)
    ]
    assert [score.state for score in ended] == [TrialState.COMPLETED]


def test_a_training_out_of_memory_is_tried_again_with_more_while_there_is_more() -> None:
    status = PodStatus(
        Phase.ENDED, "out of memory", Outcome.FAILED, 137, cause=Cause.OUT_OF_MEMORY
    )
    operator = TrialPodOperator(task_id="trial")
    resources = Resources(memory="1Gi", memory_on_oom=["2Gi"])
    again = operator._judge(status, {}, resources, 0)
    assert (again.outcome, again.cause) == (Outcome.PREEMPTED, Cause.OUT_OF_MEMORY)
    assert again.reason == "out of memory; the next attempt gets 2Gi"
    last = operator._judge(status, {}, resources, 1)
    assert (last.outcome, last.cause) == (Outcome.FAILED, Cause.OUT_OF_MEMORY)
