"""The search space: parameters, their ranges, and the conditions under which they exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from hpo_ops.protocol import ParamValue

Condition = Mapping[str, tuple[ParamValue, ...]]
"""A parameter exists when each named parameter has one of these values."""


@dataclass(frozen=True, kw_only=True)
class Float:
    """A real number from a range, both ends included."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    when: Condition = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, log=self.log, step=self.step)


@dataclass(frozen=True, kw_only=True)
class Int:
    """A whole number from a range, both ends included."""

    low: int
    high: int
    log: bool = False
    step: int = 1
    when: Condition = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, log=self.log, step=None if self.step == 1 else self.step)


@dataclass(frozen=True, kw_only=True)
class Categorical:
    """One of some values, without an order."""

    choices: tuple[ParamValue, ...]
    when: Condition = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.choices:
            raise ValueError("has no choices, but must have one or more")
        if len({(type(choice), choice) for choice in self.choices}) < len(self.choices):
            raise ValueError(f"has choices {list(self.choices)}, but each must be there once")


Parameter = Float | Int | Categorical


class Space(Mapping[str, Parameter]):
    """Parameters by name, each after those that its condition names."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        if not parameters:
            raise ValueError("is empty, but must have one parameter or more")
        for name, parameter in parameters.items():
            for other, values in parameter.when.items():
                _check_condition(parameters, name, other, values)
        graph = {name: set(parameter.when) for name, parameter in parameters.items()}
        try:
            order = list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            raise ValueError(
                f"has conditions that go in a circle: {' -> '.join(error.args[1])}"
            ) from error
        position = {name: index for index, name in enumerate(parameters)}
        if not any(parameter.when for parameter in parameters.values()):
            order.sort(key=position.__getitem__)
        self._parameters = {name: parameters[name] for name in order}

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def exists(self, name: str, params: Mapping[str, ParamValue]) -> bool:
        """Whether a parameter is part of a configuration, given those before it."""
        return all(
            other in params and params[other] in values
            for other, values in self._parameters[name].when.items()
        )


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
        raise ValueError(f"{name}.when names {other}, but the parameters are {sorted(parameters)}")
    parent = parameters[other]
    if isinstance(parent, Categorical) and (missing := set(values) - set(parent.choices)):
        raise ValueError(
            f"{name}.when asks for {other} = {sorted(map(str, missing))},"
            f" but its choices are {list(parent.choices)}"
        )
