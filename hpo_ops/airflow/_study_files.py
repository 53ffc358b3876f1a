"""The study files of a DAGs folder, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpo_ops.airflow.trigger_form import count_mapped_tasks
from hpo_ops.config import Flow, StudyConfig, StudyError, load_study
from hpo_ops.config.round_planning import count_rounds
from hpo_ops.config.runner_registry import generic_dags


def list_study_files(folder: Path, only: str | None) -> list[Path]:
    """The study files in a folder; if one DAG is wanted, only its file, where that is known."""
    paths = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    if only is None:
        return paths
    name = re.compile(rf"^name: *[\"']?{re.escape(only)}[\"']? *(#.*)?$".encode(), re.MULTILINE)
    named = [path for path in paths if name.search(path.read_bytes())]
    return named if len(named) == 1 else paths


def read_study_files(
    paths: Sequence[Path], running: Mapping[str, StudyConfig]
) -> dict[str, tuple[StudyConfig | None, str | None]]:
    """Reads study files; returns study and problem by DAG id.

    A study that runs while its file is broken or changed has both: the study that runs, and why
    no other can start.
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
    """The properties of a study that decide which tasks its DAG has."""
    is_rolling = study.flow is Flow.ROLLING
    count = count_mapped_tasks(study) if is_rolling else count_rounds(study)
    return study.flow, count, study.is_retrained
