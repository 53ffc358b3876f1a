"""Durations in a study file, such as ``90s``, ``30m``, ``2h``, ``1d``."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from hpo_ops.config.study_errors import shown

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PATTERN = r"^\d+(\.\d+)?[smhd]$"


def parse_duration(value: object) -> object:
    """Converts text such as ``90s``, ``30m``, ``2h`` or ``1d`` to seconds.

    Other values are returned unchanged; a number is a duration in seconds.

    Raises:
        ValueError: The text is not a duration.
    """
    if isinstance(value, str):
        if not re.fullmatch(_PATTERN, value) or value.endswith("\n"):
            raise ValueError(f"is {shown(value)}, but must be a duration: 90s, 30m, 2h or 1d")
        return float(value[:-1]) * _SECONDS[value[-1]]
    return value


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    Field(gt=0),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": _PATTERN},
            ]
        }
    ),
]
