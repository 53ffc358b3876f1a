"""The search space as people write it."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from hpo_ops.core.space import Categorical, Float, Int, Parameter, Space
from hpo_ops.protocol import ParamValue

_KINDS = ("float", "int", "choices")
_OPTIONS = {"float": {"log", "step"}, "int": {"log", "step"}, "choices": set()}


def parse_space(value: object) -> Space:
    """A space from the mapping in a study file; a ValueError says what is wrong in a sentence."""
    if isinstance(value, Space):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"is {value!r}, but must be a mapping of parameter names")
    return Space({str(name): _parameter(str(name), item) for name, item in value.items()})


def _parameter(name: str, item: object) -> Parameter:
    if isinstance(item, list):
        item = {"choices": item}
    if not isinstance(item, dict):
        raise ValueError(
            f".{name} is {item!r}, but must be a list of choices or float/int/choices"
        )
    kinds = [kind for kind in _KINDS if kind in item]
    if len(kinds) != 1:
        raise ValueError(f".{name} is {item!r}, but must have one of {', '.join(_KINDS)}")
    kind = kinds[0]
    if unknown := set(item) - {kind, "when"} - _OPTIONS[kind]:
        allowed = ", ".join(sorted(_OPTIONS[kind] | {"when"}))
        raise ValueError(f".{name}.{sorted(unknown)[0]} is not a key of {kind}; keys: {allowed}")
    when = _condition(name, item.get("when", {}))
    try:
        if kind == "choices":
            return Categorical(choices=_choices(item["choices"]), when=when)
        low, high = _ends(kind, item[kind])
        log, step = item.get("log", False), item.get("step")
        if not isinstance(log, bool):
            raise ValueError(f"has log {log!r}, but it must be true or false")
        if kind == "int":
            return Int(
                low=_whole(low), high=_whole(high), log=log, step=_whole(step or 1), when=when
            )
        return Float(
            low=low, high=high, log=log, step=None if step is None else _number(step), when=when
        )
    except ValueError as error:
        raise ValueError(f".{name} {error}") from error


def _ends(kind: str, value: object) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"has {kind} {value!r}, but it must be [low, high]")
    return _number(value[0]), _number(value[1])


def _number(value: object) -> float:
    if isinstance(value, str):  # YAML reads 1e-4 as text
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"has {value!r}, but it must be a number") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"has {value!r}, but it must be a finite number")
    return value


def _whole(value: object) -> int:
    number = _number(value)
    if number != int(number):
        raise ValueError(f"has {number!r}, but it must be a whole number")
    return int(number)


def _choices(value: object) -> tuple[ParamValue, ...]:
    if not isinstance(value, list):
        raise ValueError(f"has choices {value!r}, but it must be a list")
    for choice in value:
        if choice is not None and not isinstance(choice, (bool, int, float, str)):
            raise ValueError(f"has the choice {choice!r}, but it must be text, a number or a flag")
    return tuple(value)


def _condition(name: str, value: object) -> dict[str, tuple[ParamValue, ...]]:
    if not isinstance(value, dict):
        raise ValueError(
            f".{name}.when is {value!r}, but must be a mapping such as optimizer: sgd"
        )
    return {
        str(other): _choices(wanted if isinstance(wanted, list) else [wanted])
        for other, wanted in value.items()
    }


def dump_parameter(parameter: Parameter) -> dict[str, Any]:
    """A parameter as a study file writes it."""
    match parameter:
        case Categorical():
            data: dict[str, Any] = {"choices": list(parameter.choices)}
        case Int():
            data = {"int": [parameter.low, parameter.high]}
            if parameter.step != 1:
                data["step"] = parameter.step
        case Float():
            data = {"float": [parameter.low, parameter.high]}
            if parameter.step is not None:
                data["step"] = parameter.step
    if getattr(parameter, "log", False):
        data["log"] = True
    if parameter.when:
        data["when"] = {other: list(values) for other, values in parameter.when.items()}
    return data


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
