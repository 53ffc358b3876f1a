from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.commands import app
from hpo_ops.cli.init_command import parse_param
from hpo_ops.config import StudyError, load_study
from hpo_ops.core import Direction


def init(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["init", str(folder), *options])


@pytest.mark.parametrize(
    "options", [[], ["--metric", "val/acc", "--maximize", "-p", "lr=1e-4..1e-1"]], ids=str
)
def test_what_is_written_passes_hpo_test_as_it_is(tmp_path: Path, options: list[str]) -> None:
    done = init(tmp_path / "cifar", *options)
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["test", str(tmp_path / "cifar/study.yaml"), "--json"])
    assert done.exit_code == 0, done.output
    assert all(check["is_ok"] for check in json.loads(done.stdout))


def test_the_study_has_what_was_given(tmp_path: Path) -> None:
    options = ["--metric", "accuracy", "-p", "lr=1e-4..1e-1", "-p", "opt=adam,sgd"]
    assert init(tmp_path / "my study", *options, "--trials", "7").exit_code == 0
    study = load_study(tmp_path / "my study" / "study.yaml")
    assert (study.name, study.trials, list(study.space)) == ("my-study", 7, ["lr", "opt"])
    assert study.objective.direction is Direction.MAXIMIZE
    assert study.create_scheduler().max_steps == 9


def test_existing_files_are_kept_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("mine")
    done = init(tmp_path)
    assert isinstance(done.exception, CommandError)
    assert "train.py exist already" in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    assert init(tmp_path, "--force").exit_code == 0
    assert "trial.report" in (tmp_path / "train.py").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr", "must be like"),
        ("lr=3", "must be like"),
        ("lr=a..b", "'a' is not a number"),
        ("no name=1..2", "must be like"),
    ],
)
def test_a_hyperparameter_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        parse_param(text)


def test_answers_that_make_no_study_leave_nothing_behind(tmp_path: Path) -> None:
    done = init(tmp_path / "x", "-p", "lr=2..1")
    assert isinstance(done.exception, StudyError)
    assert list((tmp_path / "x").iterdir()) == []


def test_a_folder_that_is_a_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    done = init(tmp_path / "x")
    assert isinstance(done.exception, CommandError)
    assert "cannot be written" in str(done.exception)
    assert (tmp_path / "x").read_text() == "mine"
