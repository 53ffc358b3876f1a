"""The keys of a study that can be changed when the study is triggered or while it runs."""

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
    """Changes values in a study's data in place, and returns the data.

    Args:
        data: The study as a mapping.
        changes: New values by dotted key, such as ``budget.wall``.
        keys: The dotted keys that may be changed.
        source: Origin of the changes, for error messages.

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
