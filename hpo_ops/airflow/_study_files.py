"""Finds and reads the study files of a folder, and reports files that cannot be used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpo_ops.airflow.trigger_form import count_mapped_tasks
from hpo_ops.config import Flow, StudyConfig, StudyError, load_study
from hpo_ops.config.round_planning import count_rounds
from hpo_ops.config.runner_registry import generic_dags


def list_study_files(folder: Path, only: str | None) -> list[Path]:
    """Lists the study files in a folder.

    Args:
        folder: The folder with the study files.
        only: Id of the only DAG that is needed, which is also its study's name. If exactly one
            file contains this name under the key ``name``, only that file is returned; otherwise
            all files are. None for all files.
    """
    paths = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    if only is None:
        return paths
    name = re.compile(rf"^name: *[\"']?{re.escape(only)}[\"']? *(#.*)?$".encode(), re.MULTILINE)
    named = [path for path in paths if name.search(path.read_bytes())]
    return named if len(named) == 1 else paths


def read_study_files(
    paths: Sequence[Path], running: Mapping[str, StudyConfig]
) -> dict[str, tuple[StudyConfig | None, str | None]]:
    """Reads study files and checks that each study's name, which becomes its DAG id, is unique.

    Args:
        paths: The study files.
        running: Configurations of the running studies, by DAG id.

    Returns:
        A study and a problem for each DAG id. The study is None if its file cannot be used; the
        problem is None if the file is valid. If a study runs while its file is invalid or was
        changed so that its DAG would have other tasks, both are given: the running study, and the
        reason why no new run can start.
    """
    found: dict[str, tuple[StudyConfig | None, str | None]] = {}
    sources: dict[str, Path] = {}
    for path in paths:
        try:
            study = load_study(path)
        except StudyError as error:
            found.setdefault(path.stem, (running.get(path.stem), str(error)))
            continue
        name = study.name
        if name in sources:
            problem = f"{path}: name is {name!r}, but {sources[name].name} has it too"
            found[path.stem if path.stem != name else f"{name}.{path.suffix[1:]}"] = None, problem
        elif name in generic_dags().values():
            found[path.stem] = (
                None,
                f"{path}: name is {name!r}, but that is the id of a generic DAG",
            )
        else:
            sources[name] = path
            found[name] = study, None
            if name in running and _shape(running[name]) != _shape(study):
                problem = f"{path}: was changed while {name} runs; wait for the end of its run"
                found[name] = running[name], problem
    return found


def _shape(study: StudyConfig) -> tuple[Flow, int, bool]:
    """Returns the properties of a study that determine which tasks its DAG has."""
    is_rolling = study.flow is Flow.ROLLING
    count = count_mapped_tasks(study) if is_rolling else count_rounds(study)
    return study.flow, count, study.is_retrained
