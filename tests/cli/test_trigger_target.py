"""The DAG that a command triggers, and with which configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.trigger_target import Target, parse_changes, read_target
from hpo_ops.config import StudyError
from tests.studies import study_data


def write(folder: Path, **changes: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump(study_data(name="small", code=".", **changes)))
    return file


def test_a_name_is_the_dag_of_that_study() -> None:
    assert read_target("digits", {"trials": 3}) == Target("digits", "digits", {"trials": 3})


def test_a_file_among_the_dags_has_its_own_dag_and_sends_the_changes_alone(tmp_path: Path) -> None:
    file = write(tmp_path / "dags" / "studies")
    assert read_target(str(file), {"trials": 3}) == Target("small", "small", {"trials": 3})


def test_any_other_file_is_sent_completely_to_the_generic_dag(tmp_path: Path) -> None:
    target = read_target(str(write(tmp_path)), {"trials": 3})
    assert (target.name, target.dag_id) == ("small", "hpo_study")
    study = target.conf["study"]
    assert isinstance(study, dict)
    assert (study["trials"], study["flow"]) == (3, "rolling")


def test_a_change_that_is_not_allowed_is_refused_before_anything_is_triggered(
    tmp_path: Path,
) -> None:
    with pytest.raises(StudyError, match="trials is 0, but must be 1 or more"):
        read_target(str(write(tmp_path)), {"trials": 0})


def test_changes_are_read_as_yaml() -> None:
    assert parse_changes(["trials=3", "metric.target=null", "budget.wall=2h"]) == {
        "trials": 3,
        "metric.target": None,
        "budget.wall": "2h",
    }


def test_a_change_without_an_equals_sign_is_refused() -> None:
    with pytest.raises(CommandError, match="'trials' is not of the form key=value"):
        parse_changes(["trials"])
