"""Chooses the DAG that a command triggers for a study.

That is the study's own DAG, or a generic DAG, which runs a study that it receives in its ``conf``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.config import StudyConfig, load_study
from hpo_ops.config.runner_registry import find_runner

DAG_SECONDS = 90.0
"""The longest time that a command waits for Airflow to parse a new study file into a DAG."""


@dataclass(frozen=True)
class Target:
    """The DAG to trigger, and the ``conf`` of its run.

    Attributes:
        name: The name of the study.
        dag_id: The id of the DAG to trigger.
        conf: The ``conf`` of the DAG run.
    """

    name: str
    dag_id: str
    conf: dict[str, object]


def read_target(given: str, changes: dict[str, object]) -> Target:
    """Returns the DAG to trigger for a study, and the ``conf`` with the changes to the study.

    A study that is given by name, or by a file in ``dags/studies``, has its own DAG, whose
    ``conf`` contains only the changes. A study in any other file is run by the generic DAG, whose
    ``conf`` contains the complete study.

    Args:
        given: The name of a study, or the path of a study file.
        changes: New values of keys of the study file, by dotted key, such as ``budget.wall``.
    """
    path = Path(given)
    if path.suffix not in (".yaml", ".yml"):
        return Target(given, given, changes)
    study = load_study(path)
    if path.resolve().parts[-3:-1] == ("dags", "studies"):
        return Target(study.name, study.name, changes)
    return generic_dag_target(study.change(changes, source=given, is_running=False))


def generic_dag_target(study: StudyConfig) -> Target:
    """Returns the generic DAG of the study's runner, with the complete study in its ``conf``.

    In the ``conf``, a study with ``reproducible: true`` keeps its ``flow``. Every other study gets
    ``flow: rolling`` (a slot is refilled as soon as it is free), the only flow that the generic
    DAG has for such studies.
    """
    config = study.to_dict()
    if not study.reproducible:
        config["flow"] = "rolling"
    return Target(study.name, find_runner(study.runner).generic_dag, {"study": config})


def parse_changes(assignments: list[str]) -> dict[str, object]:
    """Parses changes to a study: ``["parallelism=4"]`` as ``{"parallelism": 4}``; values are YAML.

    Raises:
        CommandError: An assignment is not of the form ``key=value``.
    """
    changes: dict[str, object] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise CommandError(f"{assignment!r} is not of the form key=value")
        changes[key] = yaml.safe_load(value)
    return changes
