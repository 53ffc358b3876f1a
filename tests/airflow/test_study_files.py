"""Study files of a folder: which are read, and what is said of those that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from hpo_ops.airflow._study_files import list_study_files, read_study_files
from hpo_ops.config import parse_study
from tests.studies import study_data


def write(folder: Path, name: str, *, file: str | None = None, **changes: Any) -> Path:
    path = folder / (file or f"{name}.yaml")
    code = str(Path(__file__).parent)
    path.write_text(yaml.safe_dump(study_data(name=name, code=code, **changes), sort_keys=False))
    return path


def test_only_the_file_of_a_wanted_dag_is_read(tmp_path: Path) -> None:
    first, second = write(tmp_path, "first", file="a.yaml"), write(tmp_path, "second")
    assert list_study_files(tmp_path, None) == [first, second]
    assert list_study_files(tmp_path, "first") == [first]


def test_all_files_are_read_where_the_file_of_a_dag_is_not_known(tmp_path: Path) -> None:
    paths = [write(tmp_path, "first"), write(tmp_path, "second")]
    assert list_study_files(tmp_path, "third") == paths


def test_a_study_must_not_have_the_id_of_a_generic_dag(tmp_path: Path) -> None:
    path = write(tmp_path, "hpo_study", file="mine.yaml")
    ((study, problem),) = read_study_files([path], {}).values()
    assert study is None
    assert "name is 'hpo_study', but that is" in (problem or "")


def test_a_running_study_whose_file_is_broken_has_study_and_problem(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text("name: [")
    running = parse_study(study_data(name="good"), source="test")
    study, problem = read_study_files([path], {"good": running})["good"]
    assert study is running
    assert "is not YAML" in (problem or "")
