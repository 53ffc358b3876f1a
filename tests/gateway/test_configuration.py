"""A study's configuration travels once: from the file to the pod as one value."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from hpo_ops.airflow.entered_study import config_of
from hpo_ops.client import NextAction, NextActionKind, StudyHandle, StudyRequest
from hpo_ops.config import StudyConfig, parse_study
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.runners.kubernetes.operator import PodSettings
from tests.gateway.web import task
from tests.studies import study_data

TEMPLATES = Path(__file__).resolve().parents[2] / "k8s_pod_templates"
EVERY_KEY: dict[str, Any] = {
    **study_data(),
    "description": "all keys",
    "image": "registry.example/training:1",
    "install": False,
    "constraints": ["width * lr <= 4"],
    "sampler": {"name": "tpe", "n_startup_trials": 3},
    "warm_start": {"study": "earlier"},
    "enqueue": [{"lr": 0.01}],
    "scheduler": {"name": "median", "n_warmup_steps": 2},
    "curves": {"name": "mcmc"},
    "allocator": "uniform",
    "max_parallelism": 5,
    "max_trials": 9,
    "flow": "rolling",
    "budget": {"wall": "1h"},
    "stop": {"when": "stops:now"},
    "retries": 2,
    "runner": "kubernetes",
    "resources": {"cpu": 2, "memory": "1Gi", "memory_on_oom": ["2Gi"]},
    "pod": {"namespace": "ml", "tolerations": [{"key": "a"}]},
    "env": {"ZEBRA": "1", "ANT": "2"},
    "checkpoints": {"store": "s3://bucket", "every": 3},
    "finalizers": ["ends:tidily"],
    "grace": "10s",
    "trial_seed": 3,
    "deterministic": True,
    "data": {"version": "v2"},
    "cache": False,
    "share": ["other"],
    "repeats": 2,
    "reproducible": False,
}
EXCLUSIVE = {"metrics", "folds", "reproducible", "round_size"}
"""Keys that do not go with others of the study above."""


def test_the_study_of_these_tests_sets_every_key() -> None:
    config = parse_study(EVERY_KEY, source="test")
    as_default = {
        name
        for name, field in StudyConfig.model_fields.items()
        if getattr(config, name) == field.get_default(call_default_factory=True)
    }
    assert as_default == EXCLUSIVE


def test_the_task_of_a_trial_gets_the_configuration_that_was_entered(
    services: Gateway, web: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPO_POD_TEMPLATES", str(TEMPLATES))
    entered = parse_study({**EVERY_KEY, "warm_start": None}, source="test")
    request = StudyRequest(config=entered.to_dict(), dag_id="small", run_id="run-1")
    answer = web.post("/hpo/api/v1/studies", json=request.to_dict(), headers=task())
    by_xcom = json.loads(json.dumps(answer.json(), sort_keys=True))  # as PostgreSQL keeps it
    assert config_of(StudyHandle.from_dict(by_xcom)) == entered
    assert list(config_of(StudyHandle.from_dict(by_xcom)).env) == ["ZEBRA", "ANT"]

    where = {"dag_id": "small", "run_id": "run-1", "key": "try"}
    turn = NextAction.from_dict(
        web.post("/hpo/api/v1/trials/0/next_action", params=where, headers=task()).json()
    )
    assert turn.kind is NextActionKind.RUN
    assert turn.study is not None
    assert config_of(turn.study) == entered
    assert PodSettings.of(config_of(turn.study), turn).pod == entered.pod


def test_no_message_copies_a_key_of_the_configuration() -> None:
    keys = {*StudyConfig.model_fields} - {"name"}
    assert not keys & {field.name for field in fields(StudyHandle)}
    assert not keys & {field.name for field in fields(NextAction)}
