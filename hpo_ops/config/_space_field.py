"""Parses the section ``space`` of a study file."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from hpo_ops.config.study_errors import SeveralError, shown
from hpo_ops.core.search_space import Categorical, Float, Int, Parameter, Space
from hpo_ops.protocol import ParamValue

_KINDS = ("float", "int", "choices")
_OPTIONS = {"float": {"log", "step"}, "int": {"log", "step"}, "choices": set()}


def parse_space(value: object) -> Space:
    """Parses the search space of a study file.

    Raises:
        SeveralError: Parameters are invalid; the error has one sentence for each problem.
        ValueError: The value is not a mapping.
    """
    if isinstance(value, Space):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"is {shown(value)}, but must be a mapping of parameter names")
    parameters: dict[str, Parameter] = {}
    problems: list[str] = []
    for name, item in value.items():
        try:
            parameters[str(name)] = _parameter(str(name), item)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise SeveralError(problems)
    return Space(parameters)


def _parameter(name: str, item: object) -> Parameter:
    if isinstance(item, list):
        item = {"choices": item}
    if not isinstance(item, dict):
        raise ValueError(
            f".{name} is {shown(item)}, but must be a list of choices or float/int/choices"
        )
    kinds = [kind for kind in _KINDS if kind in item]
    if len(kinds) != 1:
        raise ValueError(f".{name} is {shown(item)}, but must have one of {', '.join(_KINDS)}")
    kind = kinds[0]
    if unknown := set(item) - {kind, "when"} - _OPTIONS[kind]:
        allowed = sorted(_OPTIONS[kind] | {"when"})
        found = min(map(str, unknown))
        close = get_close_matches(found, allowed, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(
            f".{name}.{found} is not a key of {kind}{hint} (keys: {', '.join(allowed)})"
        )
    when = _condition(name, item.get("when", {}))
    try:
        if kind == "choices":
            return Categorical(choices=_choices(item["choices"]), when=when)
        low, high = _ends(kind, item[kind])
        log, step = item.get("log", False), item.get("step")
        if not isinstance(log, bool):
            raise ValueError(f"has log {shown(log)}, but it must be true or false")
        if kind == "int":
            step = 1 if step is None else _integer(step)
            return Int(low=_integer(low), high=_integer(high), log=log, step=step, when=when)
        return Float(
            low=low, high=high, log=log, step=None if step is None else _number(step), when=when
        )
    except ValueError as error:
        raise ValueError(f".{name} {error}") from error


def _ends(kind: str, value: object) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"has {kind} {shown(value)}, but it must be [low, high]")
    return _number(value[0]), _number(value[1])


def _number(value: object) -> float:
    if isinstance(value, str):  # YAML reads 1e-4 as text
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"has {shown(value)}, but it must be a number") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_finite(value):
        raise ValueError(f"has {shown(value)}, but it must be a finite number")
    return value


def _is_finite(value: float) -> bool:
    """Returns whether a number is in the range of finite floats; accepts integers of any size."""
    return -sys.float_info.max <= value <= sys.float_info.max


def _integer(value: object) -> int:
    number = _number(value)
    if number != int(number):
        raise ValueError(f"has {number!r}, but it must be an integer")
    return int(number)


def _choices(value: object) -> tuple[ParamValue, ...]:
    if not isinstance(value, list):
        raise ValueError(f"has choices {shown(value)}, but it must be a list")
    for choice in value:
        is_value = choice is None or isinstance(choice, (bool, str))
        if not is_value and not (isinstance(choice, (int, float)) and _is_finite(choice)):
            raise ValueError(
                f"has the choice {shown(choice)}, but it must be text, a finite number or a "
                "boolean"
            )
    return tuple(value)


def _condition(name: str, value: object) -> dict[str, tuple[ParamValue, ...]]:
    if not isinstance(value, dict):
        raise ValueError(
            f".{name}.when is {shown(value)}, but must be a mapping such as optimizer: sgd"
        )
    try:
        return {
            str(other): _choices(wanted if isinstance(wanted, list) else [wanted])
            for other, wanted in value.items()
        }
    except ValueError as error:
        raise ValueError(f".{name}.when {error}") from error


SpaceField = Annotated[
    Space,
    BeforeValidator(parse_space),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"type": ["object", "array"]},
            "description": "Parameters by name: {float: [low, high], log: true} or [a, b]",
        }
    ),
]
