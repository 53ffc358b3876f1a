"""The capacity of a pool, counted on its nodes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpo_ops.config import StudyConfig, parse_study
from hpo_ops.runners.kubernetes import _node_capacity
from hpo_ops.runners.kubernetes._node_capacity import capacity_of_pool, count_gpus
from tests.studies import study_data

TEMPLATES = Path(__file__).resolve().parents[3] / "k8s_pod_templates"


def node(gpus: int | None) -> Any:
    allocatable = {} if gpus is None else {"nvidia.com/gpu": str(gpus)}
    return SimpleNamespace(status=SimpleNamespace(allocatable=allocatable))


def study(**resources: Any) -> StudyConfig:
    return parse_study(study_data(runner="kubernetes", resources=resources), source="test")


class FakeHook:
    """Airflow's hook, with nodes by label selector."""

    def __init__(self, **pools: list[Any]) -> None:
        self.core_v1_client = self
        self.pools = pools

    def list_node(self, *, label_selector: str) -> Any:
        return SimpleNamespace(items=self.pools[label_selector.removeprefix("hpo-ops/pool=")])


def test_gpus_of_nodes_are_added() -> None:
    assert count_gpus([node(4), node(2), node(None)]) == 6


def test_shares_are_counted_as_parts_of_a_gpu() -> None:
    assert count_gpus([node(8)], shares=4) == 2


def test_a_pool_without_a_node_is_not_empty_but_unknown() -> None:
    assert count_gpus([]) is None


def test_the_nodes_of_a_study_s_pool_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPO_POD_TEMPLATES", str(TEMPLATES))
    monkeypatch.setattr(_node_capacity, "connect_hook", lambda: FakeHook(gpu=[node(4)], spot=[]))
    assert capacity_of_pool(study(gpu=1)) == 4
    assert capacity_of_pool(study(gpu=1, pool="spot")) is None


def test_a_pool_without_gpus_is_unlimited_and_nodes_that_cannot_be_seen_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise PermissionError("nodes is forbidden")

    monkeypatch.setattr(_node_capacity, "connect_hook", refuse)
    assert capacity_of_pool(study()) is None
    assert capacity_of_pool(study(gpu=1)) is None
