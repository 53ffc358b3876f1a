"""A runner of another package: found by its entry point, it works like the platform's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpo_ops.config import StudyConfig, StudyError, parse_study
from hpo_ops.config.runner_registry import all_runners, find_runner, generic_dags, runner_names
from hpo_ops.isolation import allowlist
from hpo_ops.ledger.study_identity import is_generic
from tests.contracts.runner import RunnerContract
from tests.studies import study_data

MODULE = '''
"""Trials as jobs of a batch queue; only what differs from the local runner."""
from hpo_ops.runners.local.runner import LocalRunner


class QueueRunner(LocalRunner):
    name = "queue"
    generic_dag = "queue_study"
    job_note = ""

    def check_study(self, study):
        if study.resources.gpu:
            raise ValueError("resources.gpu is set, but the queue has no GPUs")

    def lease(self, study):
        return 2.0

    def initial_pools(self):
        return {"queue": 8.0}

    def job_priority(self, environment):
        return 0

    def operator(self):
        from hpo_ops.airflow.trial_task import TrialTask

        class QueueOperator(TrialTask):
            def run_segment(self, gateway, study, turn, context):
                raise NotImplementedError

        return QueueOperator


RUNNER = QueueRunner()
'''
ENTRY_POINTS = "[hpo_ops.runners]\nqueue = team_queue:RUNNER\n"
METADATA = "Metadata-Version: 2.1\nName: team-queue\nVersion: 1.0\n"
CACHED = (allowlist._registered, find_runner, all_runners, generic_dags)


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Installs the package: a module and its metadata in a folder of the import path."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "team_queue.py").write_text(MODULE)
    metadata = folder / "team_queue-1.0.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    (metadata / "METADATA").write_text(METADATA)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder))
        for function in CACHED:
            function.cache_clear()
        yield
    sys.modules.pop("team_queue", None)
    for function in CACHED:
        function.cache_clear()


class TestQueue(RunnerContract):
    name = "queue"


def study(**changes: Any) -> StudyConfig:
    return parse_study(study_data(runner="queue", **changes), source="study.yaml")


def test_a_study_file_may_name_it() -> None:
    assert (study().pool, study().lease) == ("queue", 2)
    assert "queue" in StudyConfig.model_json_schema()["properties"]["runner"]["enum"]


def test_it_checks_studies_that_name_it() -> None:
    with pytest.raises(StudyError, match=r"resources\.gpu is set, but the queue has no GPUs"):
        study(resources={"gpu": 1})


def test_its_generic_dag_is_built_beside_the_others(tmp_path: Path) -> None:
    from hpo_ops.airflow.dag_factory import build_dags

    dags = build_dags(tmp_path)
    assert {"hpo_study", "hpo_pod_study", "queue_study"} <= set(dags)
    assert dags["queue_study"].get_task("trial").operator_class.__name__ == "QueueOperator"
    assert is_generic("queue_study")


def test_a_runner_without_its_libraries_keeps_no_other_from_its_dag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hpo_ops.airflow.dag_factory import build_dags

    def missing(self: object) -> None:
        raise ImportError("No module named 'queue_client'")

    monkeypatch.setattr(type(find_runner("queue")), "operator", missing)
    dags = build_dags(tmp_path)
    assert "No module named 'queue_client'" in str(dags["queue_study"].doc_md)
    assert "trial" in dags["hpo_study"].task_ids


def test_once_it_is_gone_its_studies_stay_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    data = study().to_dict()
    monkeypatch.setattr("hpo_ops.config._study_config.runner_names", lambda: ["local"])
    assert parse_study(data, source="ledger", is_entered=True).runner == "queue"
    assert "queue" in runner_names()
