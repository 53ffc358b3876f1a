"""What a command triggers: a study's own DAG, or the generic one with a whole study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.config import GENERIC_DAGS, StudyConfig, load_study


@dataclass(frozen=True)
class Target:
    """A DAG and what it is triggered with.

    Attributes:
        name: The study.
    """

    name: str
    dag_id: str
    conf: dict[str, object]


def read_target(given: str, changes: dict[str, object]) -> Target:
    """A name or a file in ``dags/studies`` has a DAG of its own; other files are sent whole."""
    path = Path(given)
    if path.suffix not in (".yaml", ".yml"):
        return Target(given, given, changes)
    study = load_study(path)
    if path.resolve().parts[-3:-1] == ("dags", "studies"):
        return Target(study.name, study.name, changes)
    return whole_study(study.change(changes, source=given, is_running=False))


def whole_study(study: StudyConfig) -> Target:
    """A study that the generic DAG is given."""
    whole = {**study.to_dict(), "flow": "rolling"} if not study.reproducible else study.to_dict()
    return Target(study.name, GENERIC_DAGS[study.runner], {"study": whole})


def parse_changes(words: list[str]) -> dict[str, object]:
    """``["parallelism=4"]`` as ``{"parallelism": 4}``; values are read as YAML."""
    changes: dict[str, object] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise CommandError(f"{word!r} is not of the form key=value")
        changes[key] = yaml.safe_load(value)
    return changes
