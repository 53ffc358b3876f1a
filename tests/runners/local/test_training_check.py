from __future__ import annotations

from pathlib import Path

import pytest

from hpo_ops.config import parse_study
from hpo_ops.runners.local.training_check import Check, TrainingCheck

GOOD = """
from hpo_ops.sdk import trial
state = [0.0]
def save(folder): (folder / "sum").write_text(str(state[0]))
def load(folder): state[0] = float((folder / "sum").read_text())
trial.checkpointed(save=save, load=load)
for step in trial.steps():
    state[0] += trial.params["x"]
    trial.report(step, state[0])
"""
WITHOUT_CHECKPOINT = """
from hpo_ops.sdk import trial
for step in trial.steps():
    trial.report(step, 1.0)
"""
SHORT = """
from hpo_ops.sdk import trial
trial.report(1, 1.0)
"""
BROKEN = "raise SystemExit('no data set at /data')"
SILENT = "import time; time.sleep(60)"
DEAF = """
import json, os, time
from pathlib import Path
folder = Path(os.environ["HPO_DIR"])
for step in range(1, 10_000):
    with (folder / "reports.jsonl").open("a") as file:
        file.write(json.dumps({"step": step, "metrics": {"loss": 1.0}, "seconds": 0.1}) + "\\n")
    time.sleep(0.1)
"""


def check(folder: Path, code: str, *, limit: float = 60.0) -> dict[str, Check]:
    (folder / "train.py").write_text(code)
    study = parse_study(
        {
            "name": "tried",
            "code": str(folder),
            "command": "python train.py",
            "metric": {"name": "loss", "direction": "minimize"},
            "space": {"x": {"float": [0, 1]}},
            "scheduler": {"name": "default", "max_steps": 1_000_000},
            "grace": 2.0,
        },
        source="test",
    )
    found = TrainingCheck(study=study, params={"x": 0.5}, limit_seconds=limit).run()
    return {item.name: item for item in found}


def test_code_that_does_everything_passes_all_checks(tmp_path: Path) -> None:
    found = check(tmp_path, GOOD)
    assert list(found) == [
        "starts and reports",
        "pauses when asked to",
        "saves checkpoints",
        "resumes from its checkpoint",
        "saves and leaves at SIGTERM",
        "stops when asked to",
    ]
    assert all(item.is_ok for item in found.values()), found


def test_code_without_checkpoints_is_told_what_to_call(tmp_path: Path) -> None:
    found = check(tmp_path, WITHOUT_CHECKPOINT)["saves checkpoints"]
    assert not found.is_ok
    assert "trial.checkpointed(save=..., load=...)" in found.text


def test_code_that_ends_at_once_is_fine_but_nothing_is_resumed(tmp_path: Path) -> None:
    found = check(tmp_path, SHORT)
    assert list(found) == ["starts and reports"]
    assert "finished at step 1" in found["starts and reports"].text


@pytest.mark.parametrize(
    ("code", "text"), [(BROKEN, "exit code 1"), (SILENT, "no report of loss within 3 s")]
)
def test_code_that_reports_nothing_fails_with_the_reason(
    tmp_path: Path, code: str, text: str
) -> None:
    found = check(tmp_path, code, limit=3.0)
    assert list(found) == ["starts and reports"]
    assert not found["starts and reports"].is_ok
    assert text in found["starts and reports"].text


def test_code_that_never_looks_at_its_control_file_does_not_pause(tmp_path: Path) -> None:
    found = check(tmp_path, DEAF)["pauses when asked to"]
    assert not found.is_ok
    assert "did not leave by itself" in found.text
