"""Jobs over HTTP, and the folds of a trial, as pods."""

from __future__ import annotations

import json
from concurrent.futures import Future

import httpx
import pytest

from hpo_ops.config.runner_registry import find_runner
from tests.jobs import CODE, SAMPLE, archive
from tests.k8s.lab import PodLab, Watch, gpus
from tests.k8s.stories import Story, each

JOB = {
    **SAMPLE,
    "jobname": "k8s_job",
    "hp_ranges": {"x": [1, 2], "y": [3]},
    "num_iterations": "2",
    "parallelism_fact": "1",
    "cpu_per_pod": "0.02",
    "memory_per_pod": "128Mi",
}
BACKEND = '''
"""Builds the wheel of modelpkg with nothing but the standard library: pods reach no index."""
import zipfile


def build_wheel(folder, config_settings=None, metadata_directory=None):
    name, info = "modelpkg-1-py3-none-any.whl", "modelpkg-1.dist-info"
    files = {
        "modelpkg/__init__.py": open("modelpkg/__init__.py").read(),
        "modelpkg/train.py": open("modelpkg/train.py").read(),
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: modelpkg\\nVersion: 1\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name
'''
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


def a_job_over_http_is_scored_by_pods(lab: PodLab) -> None:
    code = archive({**CODE, "pyproject.toml": PROJECT, "backend.py": BACKEND})
    files = {"job": ("job.json", json.dumps(JOB)), "code": ("model.tar.gz", code)}
    login = {"Authorization": f"Bearer {lab.airflow.token}"}
    url = f"{lab.stack.url}/hpo/api/v1/jobs"
    dag = find_runner("kubernetes").generic_dag
    lab.airflow.wait_for_dag(dag, seconds=300)
    with Watch(lab, "k8s_job") as watch:
        answer = httpx.post(url, files=files, headers=login, timeout=60)
        assert answer.status_code == 201, answer.text
        run_id = answer.json()["run_id"]
        assert lab.wait(dag, run_id) == "success"
    trials = lab.trials(lab.study("k8s_job", run_id))
    assert [trial.state for trial in trials] == ["completed"] * 2
    for trial in trials:
        assert trial.value == trial.params["x"] * 10 + trial.params["y"]  # type: ignore[operator]
    # What was drawn twice is scored once.
    assert len(watch.seen) == len({str(trial.params) for trial in trials})
    for pod in watch.seen.values():
        asked = pod.spec.containers[0].resources.requests
        assert (asked["cpu"], asked["memory"], gpus(pod)) == ("20m", "128Mi", 1)


def folds_are_pods_and_so_is_the_retraining(lab: PodLab) -> None:
    name = lab.add_pod_study(
        "k8s_folds",
        flow="rolling",
        command="python folded.py",
        trials=1,
        parallelism=2,
        folds={"count": 2, "retrain": True},
        scheduler={"name": "default", "max_steps": 4},
    )
    with Watch(lab, name) as watch:
        study = lab.ended(name, lab.trigger(name))
    (trial,) = lab.trials(study)
    at = 1 - abs(float(trial.params["x"] or 0))
    assert [fold.value for fold in trial.folds] == pytest.approx([at, at + 0.01])
    assert (trial.value, trial.best_step) == (pytest.approx(at + 0.005), 3)
    assert len(watch.seen) == 3
    best = lab.checkpoints(study.key).best()
    assert best is not None
    assert best.step == 3
    assert study.best is not None
    assert study.best.is_retrained


@each([a_job_over_http_is_scored_by_pods, folds_are_pods_and_so_is_the_retraining])
def test_jobs_and_folds(told: dict[Story, Future[None]], story: Story) -> None:
    told[story].result()
