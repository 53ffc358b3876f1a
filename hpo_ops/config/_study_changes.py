"""Keys of a study that can be changed when it is triggered and while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpo_ops.config.study_errors import StudyError

CHANGEABLE = (
    "trials",
    "parallelism",
    "metric.target",
    "budget.wall",
    "stop.patience",
    "stop.failures",
)
"""Keys that can be changed while a study runs."""
OVERRIDABLE = (
    *CHANGEABLE,
    "seed",
    "repeats",
    "retries",
    "checkpoints.keep",
    "reproducible",
    "cache",
)
"""Keys that can be changed when a study is triggered."""


def with_changes(
    data: dict[str, Any], changes: Mapping[str, Any], *, keys: Sequence[str], source: str
) -> dict[str, Any]:
    """Changes the values of dotted keys in a study's data, and returns it.

    Raises:
        StudyError: A key may not be changed, or its section is missing in the study.
    """
    problems = [
        f"{key} is not a key that can be changed here (keys: {', '.join(keys)})"
        for key in changes
        if key not in keys
    ]
    if problems:
        raise StudyError(source, problems)
    for key, value in changes.items():
        parent, _, name = key.rpartition(".")
        section = data[parent] if parent else data
        if section is None:
            raise StudyError(source, [f"{key} cannot be changed: the study has no {parent}"])
        section[name] = value
    return data
