"""The search space: parameters, their ranges, and the conditions under which they exist."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from hpo_ops.protocol import ParamValue

Condition = Mapping[str, tuple[ParamValue, ...]]
"""Condition under which a parameter exists: each named parameter has one of the listed values."""

MAX_GRID = 100_000
"""Largest number of points of a grid that a sampler holds in memory, and of trials of a study."""


@dataclass(frozen=True, kw_only=True)
class Float:
    """A parameter whose values are the real numbers of a range, both ends included."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    when: Condition = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, log=self.log, step=self.step)


@dataclass(frozen=True, kw_only=True)
class Int:
    """A parameter whose values are the integers of a range, both ends included."""

    low: int
    high: int
    log: bool = False
    step: int = 1
    when: Condition = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, log=self.log, step=None if self.step == 1 else self.step)


@dataclass(frozen=True, kw_only=True)
class Categorical:
    """A parameter whose values are the given choices, which have no order."""

    choices: tuple[ParamValue, ...]
    when: Condition = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.choices:
            raise ValueError("has no choices, but must have one or more")
        if len(set(self.choices)) < len(self.choices):  # 1, 1.0 and true are equal to samplers
            raise ValueError(f"has choices {list(self.choices)}, but each must appear once")


Parameter = Float | Int | Categorical


class Space(Mapping[str, Parameter]):
    """A search space: parameters by name.

    A parameter with a condition comes after the parameters that the condition names.
    """

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        if not parameters:
            raise ValueError("is empty, but must have one parameter or more")
        for name, parameter in parameters.items():
            for other, values in parameter.when.items():
                _check_condition(parameters, name, other, values)
        graph = {name: set(parameter.when) for name, parameter in parameters.items()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            raise ValueError(
                f"has conditions that form a cycle: {' -> '.join(error.args[1])}"
            ) from error
        self._parameters: dict[str, Parameter] = {}
        for name in parameters:
            self._insert(name, parameters)

    def _insert(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        """Inserts a parameter after the parameters that its condition names.

        All other parameters keep their given order: samplers draw parameters in this order, so
        that the same seed gives the same trials only if the order is stable.
        """
        if name not in self._parameters:
            for other in parameters[name].when:
                self._insert(other, parameters)
            self._parameters[name] = parameters[name]

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def grid(self) -> dict[str, list[ParamValue]]:
        """Returns all values of each parameter, for a grid search.

        Raises:
            ValueError: A parameter is continuous or conditional, or the grid has more than
                `MAX_GRID` points.
        """
        self.check_grid()
        return {name: _grid_values(parameter) for name, parameter in self.items()}

    def check_grid(self) -> None:
        """Raises the error that `grid` would raise, without listing any values."""
        size = self.grid_size()
        if size > MAX_GRID:
            raise ValueError(
                f"space has a grid of {size} points, but sampler grid takes at most {MAX_GRID}: "
                "give larger steps, or take another sampler"
            )

    def grid_size(self) -> int:
        """Returns the number of points of the grid, without listing the points.

        Raises:
            ValueError: A parameter is continuous or conditional.
        """
        for name, parameter in self.items():
            if parameter.when:
                raise ValueError(f"space.{name}.when is there, but a grid takes no conditions")
            if count_values(parameter) is None or getattr(parameter, "log", False):
                raise ValueError(f"space.{name} has no step, but a grid needs one, or choices")
        return math.prod(count_values(parameter) or 0 for parameter in self.values())

    def check_listable(self, sampler: str, most: int) -> None:
        """Checks that no parameter has too many values for a sampler that lists all of them.

        Args:
            sampler: Name of the sampler, for the message.
            most: Largest number of values of a parameter that the sampler accepts.

        Raises:
            ValueError: A parameter has more than ``most`` values.
        """
        for name, parameter in self.items():
            count = count_values(parameter)
            if count is not None and count > most:
                raise ValueError(
                    f"space.{name} has {count} values, but sampler {sampler} lists them and takes "
                    f"at most {most}: give a larger step, or take another sampler"
                )

    def exists(self, name: str, params: Mapping[str, ParamValue]) -> bool:
        """Checks whether a parameter's condition holds.

        Args:
            name: Name of the parameter.
            params: The values chosen so far; a condition on a parameter without a value is false.
        """
        return all(
            other in params and params[other] in values
            for other, values in self._parameters[name].when.items()
        )


def clip_params(space: Space, params: Mapping[str, ParamValue]) -> dict[str, ParamValue]:
    """Moves each numeric parameter to the nearest value that the space allows.

    Parameters that the space does not have or whose condition is false, and invalid categorical
    choices, are omitted.

    >>> clip_params(Space({"width": Int(low=4, high=64, step=4)}), {"width": 77})
    {'width': 64}
    """
    clipped: dict[str, ParamValue] = {}
    for name, parameter in space.items():
        if name in params and space.exists(name, clipped):
            match parameter, params[name]:
                case Categorical(), value if value in parameter.choices:
                    clipped[name] = value
                case Int(), int() | float() as value:
                    clipped[name] = int(_clip(value, parameter))
                case Float(), int() | float() as value:
                    clipped[name] = _clip(value, parameter)
    return clipped


def _clip(value: float, within: Float | Int) -> float:
    low, high, step = within.low, within.high, within.step
    near = min(max(value, low), high)
    if step is None:
        return near
    most = int((high - low) / step + 1e-9)
    return low + min(round((near - low) / step), most) * step


def dump_parameter(parameter: Parameter) -> dict[str, Any]:
    """Returns a parameter in the syntax of a study file, as a mapping."""
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


def count_values(parameter: Parameter) -> int | None:
    """Returns the number of values of a parameter, or None if its range is continuous."""
    match parameter:
        case Categorical(choices=choices):
            return len(choices)
        case Int(low=low, high=high, step=step):
            return (high - low) // step + 1
        case Float(low=low, high=high, step=float() | int() as step):
            count = (high - low) / step
            return int(count + 1e-9) + 1 if math.isfinite(count) else sys.maxsize
    return None


def _grid_values(parameter: Parameter) -> list[ParamValue]:
    count = count_values(parameter) or 0
    match parameter:
        case Categorical():
            return list(parameter.choices)
        case Int(low=first, step=stride):
            return [first + index * stride for index in range(count)]
        case Float(low=low, step=step):
            return [low + index * (step or 0.0) for index in range(count)]


def _check_range(low: float, high: float, *, log: bool, step: float | None) -> None:
    if low > high:
        raise ValueError(
            f"is from {low:g} to {high:g}, but the low end must not be above the high"
        )
    if log and low <= 0:
        raise ValueError(f"starts at {low:g}, but must start above 0 with log: true")
    if log and step is not None:
        raise ValueError("has log and step, but only one of them is possible")
    if step is not None and step <= 0:
        raise ValueError(f"has step {step:g}, but it must be above 0")


def _check_condition(
    parameters: Mapping[str, Parameter], name: str, other: str, values: tuple[ParamValue, ...]
) -> None:
    if other not in parameters:
        raise ValueError(
            f".{name}.when names {other}, but the parameters are {sorted(parameters)}"
        )
    parent = parameters[other]
    for value in values:
        if isinstance(parent, Categorical):
            if value not in parent.choices:
                raise ValueError(
                    f".{name}.when asks for {other} = {value!r},"
                    f" but its choices are {list(parent.choices)}"
                )
        elif not isinstance(value, (int, float)) or not parent.low <= value <= parent.high:
            raise ValueError(
                f".{name}.when asks for {other} = {value!r},"
                f" but it is from {parent.low:g} to {parent.high:g}"
            )
