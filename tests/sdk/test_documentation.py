"""The code in docs/training-code.md is run, and what it says about files is what they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpo_ops.protocol import Assignment, Control, Outcome, ReportReader, SegmentResult, Workspace

PAGE = (Path(__file__).parents[2] / "docs" / "training-code.md").read_text(encoding="utf-8")
LOOP, CLASS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    ("code", "command"),
    [
        (LOOP, ["my_model.py"]),
        (CLASS, ["-m", "hpo_ops.sdk.score", "my_model:Model"]),
    ],
    ids=["loop", "class"],
)
def test_the_code_runs_and_resumes(tmp_path: Path, code: str, command: list[str]) -> None:
    (tmp_path / "my_model.py").write_text(code)
    workspace = Workspace(tmp_path / "hpo")
    for from_step, until_step in ((0, 12), (12, None)):
        workspace.prepare(
            Assignment(
                study="s", trial=0, segment="a", params={"lr": 0.5}, metrics=["accuracy"],
                from_step=from_step, until_step=until_step,
            )
        )  # fmt: skip
        subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=os.environ | {"HPO_DIR": str(workspace.root)},
            check=True,
            timeout=60,
        )
    reports = list(ReportReader(workspace.reports).new())
    assert [report.step for report in reports] == list(range(1, 21))
    assert reports[-1].metrics["accuracy"] == pytest.approx(1 - 0.5**20)
    assert SegmentResult.from_json(workspace.result.read_bytes()).outcome is Outcome.COMPLETED


def test_the_code_on_the_page_of_folds_runs_as_a_fold_and_on_all_data(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "folds.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "train.py").write_text(code)
    losses = []
    for fold in (0, 4, None):
        workspace = Workspace(tmp_path / f"fold {fold}")
        workspace.prepare(
            Assignment(
                study="s", trial=0, segment="a", params={}, metrics=["loss"], fold=fold, folds=5
            )
        )
        subprocess.run(
            [sys.executable, "train.py"],
            cwd=tmp_path,
            env=os.environ | {"HPO_DIR": str(workspace.root)},
            check=True,
            timeout=60,
        )
        losses.append([report.metrics["loss"] for report in ReportReader(workspace.reports).new()])
    assert [len(curve) for curve in losses] == [5, 5, 5]
    assert losses[0] != losses[1]


def test_the_messages_in_the_table_are_messages_of_the_protocol() -> None:
    lines = re.findall(r"`(\{.*?\})`", PAGE)
    assert Control.from_json(next(line for line in lines if "continue" in line)).reason == "…"
    result = SegmentResult.from_json(next(line for line in lines if "outcome" in line))
    assert (result.outcome, result.reason) == (Outcome.FAILED, "no data")


def test_every_file_that_is_named_is_there() -> None:
    for name in re.findall(r"`((?:examples|tests)/[\w/.]+)`", PAGE):
        assert (Path(__file__).parents[2] / name).exists(), name
