from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from hpo_ops.config import StudyConfig, parse_study
from hpo_ops.config.pod_policy import PodPolicy
from hpo_ops.runners.kubernetes import _pod_checks
from hpo_ops.runners.kubernetes._pod_checks import find_study_refusals, read_pod_policy


def study(**changes: Any) -> StudyConfig:
    data = {
        "name": "s",
        "image": "team/model:1",
        "command": "train",
        "metric": {"name": "loss", "direction": "minimize"},
        "space": {"x": {"float": [0, 1]}},
        "runner": "kubernetes",
    }
    return parse_study({**data, **changes}, source="a test")


@pytest.fixture(autouse=True)
def _own_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HPO_POD_POLICY", raising=False)
    monkeypatch.setattr(_pod_checks, "connection_namespace", lambda: "ml")


def test_every_problem_is_told_at_once() -> None:
    pod = {
        "namespace": "kube-system",
        "service_account": "admin",
        "spec": {"hostNetwork": True, "containers": [{"name": "agent", "image": "evil"}]},
    }
    problems = find_study_refusals(study(pod=pod, env={"HPO_DIR": "/x"}))
    assert [problem.split(" ")[0] for problem in problems] == [
        "pod.service_account",
        "env.HPO_DIR",
        "pod.spec.hostNetwork",
        "pod.spec.containers[agent]",
        "pod.namespace",
    ]


def test_what_the_operators_file_allows_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = study(pod={"namespace": "far", "run_as_user": 0})
    assert find_study_refusals(asked)
    file = tmp_path / "policy.yaml"
    file.write_text("namespaces: [far]\nroot: true\n")
    monkeypatch.setenv("HPO_POD_POLICY", str(file))
    assert find_study_refusals(asked) == []


def test_the_namespace_of_the_connection_needs_no_policy() -> None:
    assert find_study_refusals(study(pod={"namespace": "ml"})) == []


def test_a_policy_that_cannot_be_used_lets_nothing_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_pod_policy() == PodPolicy()
    monkeypatch.setenv("HPO_POD_POLICY", str(tmp_path / "gone.yaml"))
    with pytest.raises(AirflowFailException, match=r"gone\.yaml"):
        find_study_refusals(study())
