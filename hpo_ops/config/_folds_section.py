"""The section ``folds`` of a study file: K-fold cross-validation of each trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from hpo_ops.config._sections import NotAFlag
from hpo_ops.config._strict_model import Model

if TYPE_CHECKING:
    from hpo_ops.config._study_config import StudyConfig

MAX_FOLDS = 1_000


class Folds(Model):
    """K-fold cross-validation of each trial."""

    count: Annotated[int, Field(ge=2, le=MAX_FOLDS), NotAFlag]
    """Number of folds of each trial (K)."""
    prune: Annotated[float, Field(gt=0, le=0.5)] | None = 0.1
    """Prune a trial's remaining folds if Wilcoxon's test against the best trial has a p-value
    below this; null never prunes."""
    retrain: bool = False
    """Train the best configuration on all data at the end, up to its best step."""


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
    """Checks that the other keys of a study with folds are compatible with the folds.

    Args:
        study: The study.
        most: The largest number of trainings (trials times folds) that a study may have.

    Raises:
        ValueError: A key is not allowed with folds, or there are too many trainings.
    """
    if study.folds is None:
        return
    if study.scheduler.name != "default":
        raise ValueError(
            f"scheduler is {study.scheduler.name!r}, but must be 'default' with folds, "
            "since a trial is pruned by comparing folds"
        )
    if len(study.objectives) > 1:
        raise ValueError("metrics has several entries, but must have one with folds")
    if study.allocator is not None:
        raise ValueError(
            f"allocator is {study.allocator.name!r}, but must be omitted with folds, "
            "since each fold has one unit"
        )
    count = study.folds.count
    if study.most_trials * count > most:
        raise ValueError(
            f"trials is {study.most_trials}, but must be {most // count} or less "
            f"with {count} folds each"
        )
