"""The DAG that a command triggers: a study's own, or the generic DAG with the complete study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.config import StudyConfig, load_study
from hpo_ops.config.runner_registry import find_runner

DAG_SECONDS = 90.0
"""How long a command waits for Airflow to parse a new study file into a DAG."""


@dataclass(frozen=True)
class Target:
    """A DAG and the configuration that its run is triggered with.

    Attributes:
        name: The name of the study.
        dag_id: The DAG to trigger.
        conf: The ``conf`` of the DAG run.
    """

    name: str
    dag_id: str
    conf: dict[str, object]


def read_target(given: str, changes: dict[str, object]) -> Target:
    """Finds the DAG of a study that is given by its name or its file.

    A name, or a file in ``dags/studies``, has its own DAG, which is triggered with the changes
    alone. Any other file is sent completely to the generic DAG.
    """
    path = Path(given)
    if path.suffix not in (".yaml", ".yml"):
        return Target(given, given, changes)
    study = load_study(path)
    if path.resolve().parts[-3:-1] == ("dags", "studies"):
        return Target(study.name, study.name, changes)
    return generic_dag_target(study.change(changes, source=given, is_running=False))


def generic_dag_target(study: StudyConfig) -> Target:
    """Targets the generic DAG of the study's runner, with the complete study as its conf.

    The generic DAG has only the rolling flow, except for reproducible studies.
    """
    config = study.to_dict()
    if not study.reproducible:
        config["flow"] = "rolling"
    return Target(study.name, find_runner(study.runner).generic_dag, {"study": config})


def parse_changes(assignments: list[str]) -> dict[str, object]:
    """Parses ``["parallelism=4"]`` as ``{"parallelism": 4}``; values are read as YAML."""
    changes: dict[str, object] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise CommandError(f"{assignment!r} is not of the form key=value")
        changes[key] = yaml.safe_load(value)
    return changes
