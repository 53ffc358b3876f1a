"""``hpo submit``: what is sent, and what is said when it cannot be."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from hpo_ops.cli import submit_command
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.commands import app
from hpo_ops.client import JobStatus
from hpo_ops.config import StudyError
from tests.jobs import CODE, SAMPLE, archive


class FakeGateway:
    def __init__(self) -> None:
        self.sent: list[tuple[Any, bytes | None, str | None]] = []
        self.refusal: str | None = None

    def submit(self, job: Any, packed: bytes | None, *, key: str | None = None) -> JobStatus:
        if self.refusal:
            raise ValueError(self.refusal)
        self.sent.append((job, packed, key))
        return JobStatus(
            job=job["jobname"], dag_id="hpo_study", run_id="job__x", state="queued", iterations=150
        )


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> FakeGateway:
    made = FakeGateway()
    airflow = SimpleNamespace(run_page=lambda dag_id, run_id: f"http://here/{dag_id}/{run_id}")
    session = SimpleNamespace(gateway=made, airflow=airflow)
    monkeypatch.setattr(submit_command, "connect", lambda: session)
    return made


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(SAMPLE))
    return file


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["submit", *words])


def test_a_folder_is_packed_and_sent(gateway: FakeGateway, job: Path, tmp_path: Path) -> None:
    code = tmp_path / "model"
    for name, text in CODE.items():
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text(text)
    done = run(str(job), "--code", str(code), "--key", "k", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["state"] == "queued"
    ((sent, packed, key),) = gateway.sent
    assert (sent, key) == (dict(SAMPLE), "k")
    with tarfile.open(fileobj=io.BytesIO(packed or b"")) as found:
        assert sorted(found.getnames()) == sorted(CODE)


def test_the_archive_beside_the_job_is_sent_and_none_where_there_is_none(
    gateway: FakeGateway, job: Path
) -> None:
    shown = run(str(job))
    assert "Job SampleModel: http://here/hpo_study/job__x" in shown.stdout
    assert "queued, 0% of 150 iterations" in shown.stdout
    beside = archive()
    (job.parent / "sample_model.tar.gz").write_bytes(beside)
    run(str(job))
    assert [packed for _, packed, _ in gateway.sent] == [None, beside]


def test_what_is_wrong_is_told_in_a_sentence(gateway: FakeGateway, job: Path) -> None:
    gateway.refusal = "job SampleModel is there already with another seed"
    assert isinstance(run(str(job)).exception, CommandError)
    assert "cannot be read" in str(run(str(job.parent / "missing.json")).exception)
    assert "cannot be read" in str(run(str(job), "--code", "/nowhere.tar.gz").exception)
    job.write_text("{")
    assert "is not JSON" in str(run(str(job)).exception)
    job.write_text("{}")
    assert isinstance(run(str(job)).exception, StudyError)
    assert gateway.sent == []
