"""``hpo doctor``: what it says, what it does, and how it ends."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from hpo_ops.cli import doctor_command
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.commands import app
from hpo_ops.core.runner_resources import ResourcesUnavailableError
from hpo_ops.runners.kubernetes import _cluster_leftovers
from hpo_ops.runners.kubernetes._cluster_leftovers import Cluster
from tests.client.test_reconciler import STUDY, FakeLedger
from tests.runners.fake_kubernetes import FakeKubernetes


class FakeAirflow:
    """States of DAG runs; the error where one is given instead."""

    def __init__(self, state: str | Exception = "running") -> None:
        self.state = state

    def run_state(self, dag_id: str, run_id: str) -> str:
        assert (dag_id, run_id) == ("digits", "run")
        if isinstance(self.state, Exception):
            raise self.state
        return self.state


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A ledger with one study, an Airflow in which its run goes on, and an empty cluster."""
    there = SimpleNamespace(
        gateway=FakeLedger(STUDY), airflow=FakeAirflow(), kubernetes=FakeKubernetes(), asked=[]
    )

    def connect_cluster(namespace: str | None) -> Cluster:
        there.asked.append(namespace)
        if there.kubernetes is None:
            raise ResourcesUnavailableError("no kubeconfig can be used")
        return Cluster(there.kubernetes, namespace or "default")

    monkeypatch.setattr(doctor_command, "connect", lambda: there)
    monkeypatch.setattr(_cluster_leftovers, "connect_by_kubeconfig", connect_cluster)
    return there


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["doctor", *words], env={"COLUMNS": "200"})


def test_all_is_well(world: SimpleNamespace) -> None:
    result = run()
    assert result.exit_code == 0
    assert result.stdout == "No problems found\n"


def test_what_is_found_is_said_and_left_alone(world: SimpleNamespace) -> None:
    world.gateway.add("s", ended_seconds=3600.0)
    world.kubernetes.add_pod("p", "s")
    result = run()
    assert result.exit_code == 1
    expected = "pod p of trial 0 of digits/run in default exists, but its segment is over"
    assert expected in result.stdout
    assert "delete pod" in result.stdout
    assert "Problems: 1 found, 0 repaired" in result.stdout
    assert world.kubernetes.pods


def test_fix_repairs(world: SimpleNamespace) -> None:
    world.gateway.add("s", ended_seconds=3600.0)
    world.kubernetes.add_pod("p", "s")
    result = run("--fix")
    assert result.exit_code == 0
    assert "Problems: 1 found, 1 repaired" in result.stdout
    assert not world.kubernetes.pods


def test_what_could_not_be_repaired_is_said(world: SimpleNamespace) -> None:
    world.kubernetes.add_pod("p", "nobody's")
    result = run("--fix")
    assert result.exit_code == 1
    assert "left alone: it may belong to another installation" in result.stdout
    assert "Problems: 1 found, 0 repaired" in result.stdout
    assert run("--fix", "--unknown").exit_code == 0
    assert not world.kubernetes.pods


def test_a_run_that_airflow_does_not_know_is_gone(world: SimpleNamespace) -> None:
    world.airflow.state = LookupError("no such run")
    result = run("--fix")
    assert result.exit_code == 0
    assert world.gateway.calls == [("close", 1, "its DAG run does not exist any more")]


def test_a_run_that_cannot_be_seen_is_noted(world: SimpleNamespace) -> None:
    world.airflow.state = CommandError("Airflow says 403: Forbidden")
    result = run()
    assert result.exit_code == 0
    assert "note: the DAG run of study digits/run could not be checked" in result.stdout


def test_without_a_cluster_it_says_so_and_looks_at_the_rest(world: SimpleNamespace) -> None:
    world.kubernetes = None
    world.airflow.state = "failed"
    result = run()
    assert result.exit_code == 1
    assert "resources of the runner kubernetes were not checked: no kube" in result.stdout
    assert "study digits/run is running, but its DAG run has failed" in result.stdout


def test_a_namespace_that_was_asked_for_must_be_there(world: SimpleNamespace) -> None:
    world.kubernetes = None
    result = run("--namespace", "training")
    assert isinstance(result.exception, CommandError)
    assert "the pods of the namespace training cannot be listed" in str(result.exception)


def test_the_namespace_can_be_chosen(world: SimpleNamespace) -> None:
    world.gateway.add("s", ended_seconds=3600.0)
    world.kubernetes.add_pod("p", "s", namespace="training")
    assert run().exit_code == 0
    assert run("--namespace", "training").exit_code == 1
    assert world.asked == [None, "training"]


def test_it_speaks_json(world: SimpleNamespace) -> None:
    world.airflow.state = "success"
    said = json.loads(run("--json").stdout)
    (finding,) = said["findings"]
    assert finding["repair"] == "end study"
    assert finding["study_id"] == 1
    assert not finding["is_repaired"]
    assert "kubernetes" in said["runners_were_seen"]
    assert said["notes"] == []
    said = json.loads(run("--json", "--fix").stdout)
    assert said["findings"][0]["is_repaired"]


def test_help_has_examples() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "hpo doctor --fix" in result.stdout
