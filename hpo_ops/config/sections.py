"""The sections of a study file."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    field_validator,
)

from hpo_ops.config.durations import Duration
from hpo_ops.config.strict_model import Model
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
    """The number that the study looks at."""

    name: Annotated[str, Field(min_length=1)] = "value"
    """Name under which the training code reports it."""
    direction: Direction
    """Which way is better."""
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
    """An allocator: a short name or ``module:Class``, what its pool allows, and its options."""

    max_width: Annotated[int, Field(ge=1)] | None = None
    """Most units for one trial; by default all that the study has."""
    max_share: Annotated[int, Field(ge=1)] = 1
    """Most trials on one unit, where units can be shared."""


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


class Budget(Model):
    """How much the study may spend."""

    wall: Duration | None = None
    """Time from the start of the study after which no trial runs, such as 2h."""


class Stop(Model):
    """When the study ends before its trials are used up."""

    patience: Annotated[int, Field(ge=1)] | None = None
    """Trials in a row without a better value."""
    failures: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Largest share of failed trials; looked at from the fifth finished trial on."""
    when: FunctionName | None = None
    """Your own criterion, module:function in the code folder, which gets all trials so far."""


def _as_text(value: object) -> object:
    is_plain = isinstance(value, (int, date)) and not isinstance(value, bool)
    return str(value) if is_plain else value


class Data(Model):
    """What the trainings read."""

    version: (
        Annotated[str, BeforeValidator(_as_text), Field(min_length=1, max_length=200)] | None
    ) = None
    """Name of the data's version: scores of another study count only for the same one."""


class Checkpoints(Model):
    """Where checkpoints go and which are kept."""

    store: str | None = None
    """Address such as s3://bucket/prefix; the platform's own store if not given."""
    every: Annotated[int, Field(ge=1)] = 1
    """Steps between two checkpoints."""
    keep: Annotated[int, Field(ge=1)] = 3
    """Checkpoints of the best trials that stay after the study."""

    @field_validator("store")
    @classmethod
    def _check_store(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"^(s3|file)://.+", value):
            raise ValueError(f"is {value!r}, but must start with s3:// or file://")
        return value
