"""Sections of a study file: metric, policies, budget, stop, data, checkpoints."""

from __future__ import annotations

import re
from datetime import date
from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    field_validator,
)

from hpo_ops.config._strict_model import Model
from hpo_ops.config.durations import Duration
from hpo_ops.core import Direction
from hpo_ops.core.constraints import Constraint

FunctionName = Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
ConstraintField = Annotated[
    Constraint,
    BeforeValidator(lambda text: Constraint(text) if isinstance(text, str) else text),
    PlainSerializer(lambda constraint: constraint.text),
    WithJsonSchema({"type": "string"}),
]


class Metric(Model):
    """A metric that the study optimises."""

    name: Annotated[str, Field(min_length=1)] = "value"
    """Name under which the training code reports the metric."""
    direction: Direction
    """Whether to minimize or maximize the metric."""
    target: float | None = None
    """The study ends when a trial reaches this value."""


class Policy(Model):
    """A sampler or scheduler: a short name or ``module:Class``, and its options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    """A short name, or ``their.module:Class``."""

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


PolicyField = Annotated[
    Policy,
    BeforeValidator(_named),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"name": {"type": "string"}},
                    "required": ["name"],
                },
            ]
        }
    ),
]


class Sharing(Policy):
    """An allocator: a short name or ``module:Class``, its limits, and its options."""

    max_width: Annotated[int, Field(ge=1)] | None = None
    """Most units of one trial; by default all units of the study."""
    max_share: Annotated[int, Field(ge=1)] = 1
    """Most trials that share one unit, if the pool's units can be shared."""


SharingField = Annotated[
    Sharing,
    BeforeValidator(_named),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "max_width": {"type": "integer", "minimum": 1},
                        "max_share": {"type": "integer", "minimum": 1},
                    },
                    "required": ["name"],
                },
            ]
        }
    ),
]


def _not_a_flag(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"is {value!r}, but must be an integer")
    return value


NotAFlag = BeforeValidator(_not_a_flag)


class Flow(StrEnum):
    """The possible flows of a study's DAG: rounds with barriers, or slots that are refilled."""

    ROUNDS = "rounds"
    ROLLING = "rolling"


class Budget(Model):
    """Limits on what the study may spend."""

    wall: Duration | None = None
    """The study ends so long after its start, such as 2h."""


class Stop(Model):
    """Criteria that end the study before all its trials have run."""

    patience: Annotated[int, Field(ge=1)] | None = None
    """End the study after so many trials in a row without a better value."""
    failures: Annotated[float, Field(ge=0, le=1)] = 0.5
    """End the study if more than this share of trials have failed; checked once five trials have
    finished."""
    when: FunctionName | None = None
    """Your own criterion: module:function in the code folder, called with all trials so far."""


def _as_text(value: object) -> object:
    is_plain = isinstance(value, (int, date)) and not isinstance(value, bool)
    return str(value) if is_plain else value


class Data(Model):
    """The data that trainings read."""

    version: (
        Annotated[str, BeforeValidator(_as_text), Field(min_length=1, max_length=200)] | None
    ) = None
    """Version of the data; the score cache uses only scores of the same version."""


class Checkpoints(Model):
    """Where checkpoints are stored, and which are kept."""

    store: str | None = None
    """URL of the object store, such as s3://bucket/prefix; by default the platform's store."""
    every: Annotated[int, Field(ge=1)] = 1
    """Steps between two checkpoints."""
    keep: Annotated[int, Field(ge=1)] = 3
    """Number of best trials whose checkpoints are kept after the study."""

    @field_validator("store")
    @classmethod
    def _check_store(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"^(s3|file)://.+", value):
            raise ValueError(f"is {value!r}, but must start with s3:// or file://")
        return value
