"""Checks whether parameters are a point of a search space, and lists why they are not."""

from __future__ import annotations

from collections.abc import Mapping

from hpo_ops.core.search_space import Categorical, Float, Int, Parameter, Space
from hpo_ops.protocol import ParamValue

_TOLERANCE = 1e-6
"""Largest distance between a value and the nearest multiple of ``step``, as a share of it."""


def fit(
    space: Space, params: Mapping[str, object], *, is_complete: bool = True
) -> tuple[dict[str, ParamValue], list[str]]:
    """Converts parameters to the types of the space, and lists why values are invalid.

    Args:
        space: The search space.
        params: Values by parameter name, from a user, another study or a search algorithm.
        is_complete: Whether a missing parameter is a problem.

    Returns:
        The valid values, in the order of the space, and one sentence for each problem.
    """
    fitted: dict[str, ParamValue] = {}
    problems = [
        f"{name} is no parameter of the space (there are {', '.join(space)})"
        for name in params
        if name not in space
    ]
    for name, parameter in space.items():
        exists = _exists(parameter, fitted, is_complete=is_complete)
        if name not in params:
            if is_complete and exists and not problems:
                problems.append(f"{name} is missing")
        elif not exists:
            problems.append(f"{name} is there, but exists only when {_condition(parameter)}")
        else:
            try:
                fitted[name] = _fit_value(parameter, params[name])
            except ValueError as error:
                problems.append(f"{name} is {_shown(params[name])}, but must be {error}")
    return fitted, problems


def _exists(parameter: Parameter, fitted: Mapping[str, ParamValue], *, is_complete: bool) -> bool:
    """Checks whether a parameter's condition holds for the values fitted so far.

    A condition on a parameter without a value counts as true, or as false if ``is_complete``.
    """
    return all(
        fitted[other] in values if other in fitted else not is_complete
        for other, values in parameter.when.items()
    )


def _condition(parameter: Parameter) -> str:
    return " and ".join(
        f"{other} is {' or '.join(map(str, values))}" for other, values in parameter.when.items()
    )


def _fit_value(parameter: Parameter, value: object) -> ParamValue:
    """Converts a value to the parameter's type.

    Raises:
        ValueError: The value is not allowed. The message describes the allowed values.
    """
    match parameter:
        case Categorical(choices=choices):
            for choice in choices:
                if choice == value and isinstance(choice, bool) == isinstance(value, bool):
                    return choice
            raise ValueError(f"one of {', '.join(map(str, choices))}")
        case Int(low=low, high=high, step=step):
            number = _number(value, low, high)
            if number != int(number):
                raise ValueError("an integer")
            if (int(number) - low) % step:
                raise ValueError(f"{low} plus a multiple of {step}")
            return int(number)
        case Float(low=low, high=high, step=None):
            return float(_number(value, low, high))
        case Float(low=low, high=high, step=float() | int() as step):
            number = _number(value, low, high)
            steps = round((number - low) / step)
            if abs(number - low - steps * step) > _TOLERANCE * step:
                raise ValueError(f"{low:g} plus a multiple of {step:g}")
            return float(number)
    raise ValueError("of a known kind")


def _number(value: object, low: float, high: float) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high:
        return value
    raise ValueError(f"from {low:g} to {high:g}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
