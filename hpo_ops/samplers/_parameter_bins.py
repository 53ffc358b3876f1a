"""Divides the values of each parameter into bins, from which the REINFORCE policy chooses."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Protocol

from hpo_ops.core.search_space import Categorical, Float, Int, Parameter
from hpo_ops.protocol import ParamValue

ABSENT = -1
"""Bin index of a parameter that does not exist in a configuration, because of its condition."""


class Axis(Protocol):
    """A parameter whose values are divided into bins."""

    @property
    def priors(self) -> tuple[float, ...]:
        """The probability of each bin if values are drawn uniformly on the (log) scale."""

    @property
    def is_ordered(self) -> bool:
        """Whether neighbouring bins hold similar values."""

    def encode(self, value: ParamValue) -> int:
        """Returns the index of the bin that holds a value."""

    def decode(self, index: int, random: Random) -> ParamValue:
        """Draws a random value from a bin, uniformly on the parameter's linear or log scale."""


@dataclass(frozen=True)
class Choices:
    """A categorical parameter, with one bin for each choice."""

    choices: tuple[ParamValue, ...]
    is_ordered = False

    @property
    def priors(self) -> tuple[float, ...]:
        return (1 / len(self.choices),) * len(self.choices)

    def encode(self, value: ParamValue) -> int:
        return self.choices.index(value)

    def decode(self, index: int, random: Random) -> ParamValue:
        return self.choices[index]


@dataclass(frozen=True)
class Line:
    """A continuous parameter in bins of equal width on its linear or log scale."""

    low: float
    high: float
    log: bool
    bins: int
    is_ordered = True

    @property
    def priors(self) -> tuple[float, ...]:
        return (1 / self.bins,) * self.bins

    def encode(self, value: ParamValue) -> int:
        low, high = _scaled(self.low, self.log), _scaled(self.high, self.log)
        share = (_scaled(_real(value), self.log) - low) / ((high - low) or 1.0)
        return min(max(int(share * self.bins), 0), self.bins - 1)

    def decode(self, index: int, random: Random) -> ParamValue:
        low, high = _scaled(self.low, self.log), _scaled(self.high, self.log)
        at = low + (index + random.random()) / self.bins * (high - low)
        return min(max(math.exp(at) if self.log else at, self.low), self.high)


@dataclass(frozen=True)
class Grid:
    """An integer or stepped parameter; a bin holds one value, or several if bins are too few.

    Attributes:
        low: The smallest value.
        high: The upper bound of the values.
        step: The distance between two values.
        log: Whether the scale is logarithmic, which requires a step of 1.
        edges: Bin i holds the values with the indices edges[i] to edges[i + 1] - 1.
        is_integer: Whether the values are integers rather than floats.
    """

    low: float
    high: float
    step: float
    log: bool
    edges: tuple[int, ...]
    is_integer: bool
    is_ordered = True

    @property
    def priors(self) -> tuple[float, ...]:
        weights = [
            self._position(after) - self._position(at) for at, after in pairwise(self.edges)
        ]
        return tuple(weight / sum(weights) for weight in weights)

    def encode(self, value: ParamValue) -> int:
        number = round((_real(value) - self.low) / self.step)
        return min(max(bisect_right(self.edges, number) - 1, 0), len(self.edges) - 2)

    def decode(self, index: int, random: Random) -> ParamValue:
        first, after = self.edges[index], self.edges[index + 1]
        start, end = self._position(first), self._position(after)
        at = start + random.random() * (end - start)
        number = math.floor(math.exp(at) + 0.5 - self.low) if self.log else math.floor(at)
        number = min(max(number, first), after - 1)
        value = self.low + number * self.step
        return int(value) if self.is_integer else value

    def _position(self, number: int) -> float:
        """Returns where the value with this index begins on the linear or log scale."""
        return math.log(self.low + number - 0.5) if self.log else float(number)


def to_axis(parameter: Parameter, bins: int) -> Axis:
    """Divides the values of a parameter into bins.

    A categorical parameter gets one bin for each choice, any other parameter at most `bins` bins.
    """
    match parameter:
        case Categorical(choices=choices):
            return Choices(choices)
        case Int(low=low, high=high, log=log, step=step):
            edges = _edges(low, (high - low) // step + 1, log, bins)
            return Grid(low, high, step, log, edges, is_integer=True)
        case Float(low=low, high=high, step=float() | int() as step):
            count = int((high - low) / step + 1e-9) + 1
            return Grid(low, high, step, False, _edges(low, count, False, bins), is_integer=False)
        case Float(low=low, high=high, log=log):
            return Line(low, high, log, bins if low < high else 1)


def _edges(low: float, count: int, log: bool, bins: int) -> tuple[int, ...]:
    if count <= bins:
        return tuple(range(count + 1))
    start, end = math.log(low - 0.5) if log else 0.0, math.log(low + count - 0.5) if log else count
    shares = [start + index / bins * (end - start) for index in range(bins + 1)]
    edges = {round(math.exp(at) - low + 0.5) if log else round(at) for at in shares}
    return tuple(sorted(edges | {0, count}))


def _scaled(value: float, log: bool) -> float:
    return math.log(value) if log else value


def _real(value: ParamValue) -> float:
    if isinstance(value, str) or value is None:
        raise ValueError(f"{value!r} is not a number")
    return float(value)
