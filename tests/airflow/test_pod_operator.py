from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from hpo_ops.airflow.pod_operator import PodSettings, TrialPodOperator
from hpo_ops.client import NextAction, NextActionKind
from hpo_ops.config import Pod, parse_study
from hpo_ops.config.pod_policy import PodPolicy
from hpo_ops.protocol import Assignment
from tests.runners.kubernetes.test_pod_spec import plan
from tests.studies import study_data

TEMPLATES = Path(__file__).resolve().parents[2] / "k8s_pod_templates"


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
