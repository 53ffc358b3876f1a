"""The reconciler's DAG and its task."""

from __future__ import annotations

import importlib.util
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hpo_ops.airflow import reconcile_dag
from hpo_ops.airflow._running_studies import RunningStudies
from hpo_ops.airflow.reconcile_dag import ReconcileOperator, build_reconcile_dag, run_state
from hpo_ops.config import parse_study
from hpo_ops.core.leftovers import RunState
from hpo_ops.runners.kubernetes._cluster_leftovers import Cluster
from tests.client.test_reconciler import STUDY, FakeLedger
from tests.runners.fake_kubernetes import FakeKubernetes
from tests.studies import study_data

PROJECT = Path(__file__).resolve().parents[2]


class FakeInstance:
    """A task instance that knows the states of DAG runs; there is an error for others."""

    def __init__(self, **states: str) -> None:
        self.states = states

    def get_dr_count(self, dag_id: str, run_ids: list[str]) -> int:
        return len(self.states.keys() & set(run_ids))

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        return self.states[run_id]


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeLedger:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    found = FakeLedger(STUDY)
    monkeypatch.setattr(reconcile_dag, "connect_gateway", lambda: found)
    return found


def execute(instance: FakeInstance, kubernetes: FakeKubernetes | None = None) -> list[str]:
    operator = ReconcileOperator(task_id="reconcile")
    resources = {"kubernetes": Cluster(kubernetes, "default")} if kubernetes else {}
    operator.open_resources = lambda: resources  # type: ignore[method-assign]
    context: Any = {"ti": instance}
    return operator.execute(context)


def test_it_runs_every_five_minutes_and_never_twice_at_once() -> None:
    file = PROJECT / "dags" / "hpo_reconcile.py"
    spec = importlib.util.spec_from_file_location("hpo_reconcile", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    dag = module.dag
    assert dag.dag_id == "hpo_reconcile"
    assert dag.schedule == timedelta(minutes=5)
    assert not dag.catchup
    assert dag.max_active_runs == 1
    assert dag.is_paused_upon_creation is False
    assert build_reconcile_dag().task_ids == ["reconcile"]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({}, RunState.MISSING),
        ({"run": "running"}, RunState.GOING),
        ({"run": "queued"}, RunState.GOING),
        ({"run": "success"}, RunState.SUCCESS),
        ({"run": "failed"}, RunState.FAILED),
    ],
)
def test_a_task_learns_how_a_run_stands(states: dict[str, str], expected: RunState) -> None:
    assert run_state(FakeInstance(**states), STUDY) is expected


def test_where_all_is_well_it_does_nothing(ledger: FakeLedger) -> None:
    assert execute(FakeInstance(run="running")) == []
    assert ledger.calls == []


def test_a_study_whose_run_was_deleted_is_closed_and_its_dag_forgotten(
    ledger: FakeLedger,
) -> None:
    RunningStudies().remember(
        "digits", "run", parse_study(study_data(name="digits"), source="test")
    )
    assert execute(FakeInstance()) == []
    assert ledger.calls == [("close", 1, "its DAG run does not exist any more")]
    assert RunningStudies().studies() == {}


def test_orphaned_pods_are_deleted_and_others_told_of(
    ledger: FakeLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    kubernetes = FakeKubernetes()
    kubernetes.forbidden = {"far"}
    ledger.part.namespaces.append("far")
    ledger.add("s", ended_seconds=3600.0)
    kubernetes.add_pod("ours", "s")
    kubernetes.add_pod("theirs", "nobody's")
    (left,) = execute(FakeInstance(run="running"), kubernetes)
    assert "pod theirs in default exists, but the ledger has never heard of it" in left
    assert [name for _, name in kubernetes.pods] == ["theirs"]
    log = capsys.readouterr().out
    assert "pods in the namespace far cannot be seen: Forbidden" in log
    assert "but its segment is over; repaired: delete pod" in log
