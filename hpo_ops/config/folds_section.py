"""Folds in the study file: each trial is trained several times, on different parts of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from hpo_ops.config.sections import NotAFlag
from hpo_ops.config.strict_model import Model

if TYPE_CHECKING:
    from hpo_ops.config.study_config import StudyConfig

MAX_FOLDS = 1_000


class Folds(Model):
    """K-fold cross-validation of each trial."""

    count: Annotated[int, Field(ge=2, le=MAX_FOLDS), NotAFlag]
    """Folds that each trial is trained in (K)."""
    prune: Annotated[float, Field(gt=0, le=0.5)] | None = 0.1
    """A trial's remaining folds are pruned when Wilcoxon's test is below this; null never does."""
    retrain: bool = False
    """At the end, train the best trial on all data up to its best step."""


FoldsField = Annotated[
    Folds,
    BeforeValidator(
        lambda value: {"count": value} if not isinstance(value, (dict, Folds)) else value
    ),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 2, "maximum": MAX_FOLDS},
                {
                    "type": "object",
                    "properties": {
                        "count": {"type": "integer", "minimum": 2, "maximum": MAX_FOLDS},
                        "prune": {
                            "anyOf": [
                                {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
                                {"type": "null"},
                            ]
                        },
                        "retrain": {"type": "boolean"},
                    },
                    "required": ["count"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


def check_folds(study: StudyConfig, *, most: int) -> None:
    """Checks what goes with the folds of a study, where it has them.

    Args:
        study: The study.
        most: Most trainings that a study may have.

    Raises:
        ValueError: Something does not.
    """
    if study.folds is None:
        return
    if study.scheduler.name != "default":
        raise ValueError(
            f"scheduler is {study.scheduler.name!r}, but must be 'default' with folds, "
            "which are what a trial is pruned by"
        )
    if len(study.objectives) > 1:
        raise ValueError("metrics has several, but must be one metric with folds")
    if study.allocator is not None:
        raise ValueError(
            f"allocator is {study.allocator.name!r}, but must not be there with folds, "
            "which have one unit each"
        )
    count = study.folds.count
    if study.most_trials * count > most:
        raise ValueError(
            f"trials is {study.most_trials}, but must be {most // count} or less "
            f"with {count} folds each"
        )
