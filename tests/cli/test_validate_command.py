"""``hpo validate``: what it finds in study files, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from hpo_ops.cli.commands import app
from hpo_ops.isolation.allowlist import is_allowed
from tests.studies import study_data


def write_study(folder: Path, name: str = "small", **changes: Any) -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(study_data(name=name, code=".", **changes)))
    return file


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_a_good_file_is_ok(tmp_path: Path) -> None:
    result = run("validate", str(write_study(tmp_path)))
    assert result.exit_code == 0
    assert result.stdout.replace("\n", "").endswith("small.yaml: ok")


def test_a_bad_file_is_told_with_all_its_problems(tmp_path: Path) -> None:
    result = run("validate", str(write_study(tmp_path, trials=0, parallelism=0)))
    assert result.exit_code == 1
    assert "small.yaml: trials is 0, but must be 1 or more" in result.stderr
    assert "small.yaml: parallelism is 0, but must be 1 or more" in result.stderr


def test_one_bad_file_among_good_ones_is_enough(tmp_path: Path) -> None:
    good, bad = write_study(tmp_path, "good"), write_study(tmp_path, "bad", trials=0)
    result = run("validate", str(good), str(bad), str(tmp_path / "none.yaml"))
    assert result.exit_code == 1
    assert "good.yaml: ok" in result.stdout.replace("\n", "")
    assert "none.yaml: cannot be read" in result.stderr


def test_validate_speaks_json(tmp_path: Path) -> None:
    good, bad = write_study(tmp_path, "good"), write_study(tmp_path, "bad", trials=0)
    result = run("validate", "--json", str(good), str(bad))
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found == {str(good): [], str(bad): ["trials is 0, but must be 1 or more"]}
    assert run("validate", "--json", str(good)).exit_code == 0


def test_what_is_in_brackets_is_printed_too(tmp_path: Path) -> None:
    file = write_study(tmp_path, space={"lr": {"float": "wide"}})
    assert "[low, high]" in run("validate", str(file)).stderr


def test_a_user_checks_a_study_with_a_class_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from hpo_ops.schedulers._default import Default\nclass Mine(Default): pass\n"
    (tmp_path / "mine_alone.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    good = write_study(tmp_path, scheduler={"name": "mine_alone:Mine", "max_steps": 3})
    result = run("validate", str(good))
    assert result.exit_code == 0, result.output
    bad = write_study(tmp_path, scheduler={"name": "subprocess:Popen", "args": ["true"]})
    result = run("validate", str(bad))
    assert result.exit_code == 1
    assert "that class has no method next" in result.output
    assert not is_allowed("mine_alone:Mine")


def test_validate_without_a_file_is_misused() -> None:
    assert run("validate").exit_code == 2
