"""Users' criteria and finalizers that attack the task which calls them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpo_ops.airflow._sensors import EarlyStopSensor
from hpo_ops.airflow._study_operators import FinalizeOperator
from hpo_ops.client import StudyHandle
from hpo_ops.config import StudyConfig, parse_study
from tests.studies import study_data

SECRET = "the-token-of-the-gateway"  # noqa: S105
HOSTILE = """
import os
from pathlib import Path
def environments():
    yield str(dict(os.environ))
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            yield file.read_bytes().decode(errors="replace")
        except OSError:
            pass
def reads(trials):
    return "".join(environments())
def connects(trials):
    import airflow.sdk
    return airflow.sdk.Connection.get("hpo_gateway").password
def writes(result):
    Path({outside!r}).write_text("was here")
def ends(result):
    raise SystemExit(0)
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StudyConfig]:
    """A study whose functions are hostile; the scheduler runs beside the task."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "hostile.py").write_text(HOSTILE.format(outside=str(tmp_path / "outside")))
    monkeypatch.setenv("AIRFLOW_CONN_HPO_GATEWAY", f"http://:{SECRET}@127.0.0.1:8080")
    beside = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(600)"], env=dict(os.environ)
    )
    yield parse_study(study_data(code=str(code)), source="test")
    beside.kill()
    beside.wait()


def handle(study: StudyConfig, **changes: Any) -> StudyHandle:
    config = parse_study({**study.to_dict(), **changes}, source="test").to_json()
    return StudyHandle(id=1, name="s", run_id="r", key="s/r", config=config)


def ask(study: StudyConfig, criterion: str) -> str | None:
    sensor = EarlyStopSensor(task_id="early_stop", study=None)
    gateway: Any = SimpleNamespace(trials=lambda _: [])
    return sensor._user_reason(gateway, handle(study, stop={"when": criterion}))


def test_a_criterion_sees_no_secret_of_the_platform(study: StudyConfig) -> None:
    found = ask(study, "hostile:reads")
    assert found
    assert SECRET not in found


def test_a_criterion_cannot_ask_for_the_gateways_connection(study: StudyConfig) -> None:
    with pytest.raises(ValueError, match="hostile:connects failed"):
        ask(study, "hostile:connects")


def test_a_finalizer_can_neither_write_here_nor_end_the_task(
    study: StudyConfig, tmp_path: Path
) -> None:
    named = handle(study, finalizers=["hostile:writes", "hostile:ends"])
    operator = FinalizeOperator(task_id="finalize", result={"best": {"trial": 7}})
    operator._run_finalizers(named)
    assert not (tmp_path / "outside").exists()
