"""A job by one HTTP request, and by the command line, under a real Airflow."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from hpo_ops.cli.commands import app
from tests.e2e.airflow import Lab
from tests.jobs import SAMPLE, archive

pytestmark = pytest.mark.e2e

JOB = {
    **SAMPLE,
    "jobname": "e2e_job",
    "hp_ranges": {"x": [1, 2], "y": [3, 4]},
    "strategy": "TPE",
    "num_iterations": "4",
    "parallelism_fact": 2,
    "compute": "cpu",
    "gpu_per_pod": "0",
}


def test_a_posted_job_ends_with_its_scores_and_is_one_study_however_often_it_is_posted(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.airflow.wait_for_dag("hpo_study", seconds=120)
    login = {"Authorization": f"Bearer {lab.airflow.token}"}
    url = f"{lab.stack.url}/hpo/api/v1/jobs"
    files = {"job": ("job.json", json.dumps(JOB)), "code": ("model.tar.gz", archive())}
    nobody = httpx.post(url, files=files, timeout=60)
    assert nobody.status_code == 401

    first = httpx.post(url, files=files, headers=login, timeout=60)
    second = httpx.post(url, files=files, headers=login, timeout=60)
    assert (first.status_code, second.status_code) == (201, 200), first.text + second.text
    other = {**files, "job": ("job.json", json.dumps({**JOB, "seed": 1}))}
    assert httpx.post(url, files=other, headers=login, timeout=60).status_code == 409

    run_id = first.json()["run_id"]
    assert lab.wait("hpo_study", run_id) == "success"
    runs = lab.airflow.request("GET", "/dags/hpo_study/dagRuns", params={"limit": 100})
    assert [run["dag_run_id"] for run in runs["dag_runs"]].count(run_id) == 1
    study = lab.study("e2e_job", run_id)
    trials = lab.session.gateway.trials(study.id)
    assert [trial.state for trial in trials] == ["completed"] * 4
    for trial in trials:
        assert trial.value == trial.params["x"] * 10 + trial.params["y"]  # type: ignore[operator]

    status = httpx.get(f"{url}/e2e_job", headers=login, timeout=60).json()
    assert (status["state"], status["completion"]) == ("ended", 1.0)
    assert status["best"]["value"] == max(trial.value or 0 for trial in trials)

    # The same from the command line is the same job; with a key of its own it is a new one.
    monkeypatch.setenv("HPO_URL", lab.stack.url)
    monkeypatch.setenv("HPO_TOKEN", lab.airflow.token)
    (tmp_path / "job.json").write_text(json.dumps(JOB))
    (tmp_path / "sample_model.tar.gz").write_bytes(archive())
    command = ["submit", str(tmp_path / "job.json"), "--json"]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["run_id"] == run_id
    again = CliRunner().invoke(app, [*command, "--key", "once more", "--follow"])
    assert again.exit_code == 0, again.output
    done = json.loads(again.stdout)
    assert done["run_id"] != run_id
    assert (done["state"], done["completion"]) == ("ended", 1.0)
