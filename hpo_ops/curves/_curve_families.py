"""The eleven parametric families of learning curves of Domhan et al. (IJCAI 2015)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Family:
    """A parametric family of learning curves: a formula with free parameters.

    Attributes:
        name: Name of the family in the code of Domhan et al.
        defaults: Initial values for a fit, by name of the parameter.
        function: Computes the curve from the steps and one array for each parameter, which must
            broadcast with the steps.
    """

    name: str
    defaults: Mapping[str, float]
    function: Callable[..., Array]

    def __call__(self, steps: Array, *parameters: Array | float) -> Array:
        return self.function(steps, *parameters)


def _vap(x: Array, a: Array, b: Array, c: Array) -> Array:
    return np.exp(a + b / x + c * np.log(x))


def _ilog2(x: Array, c: Array, a: Array) -> Array:
    return c - a / np.log(x + 1)


def _weibull(x: Array, alpha: Array, beta: Array, kappa: Array, delta: Array) -> Array:
    return alpha - (alpha - beta) * np.exp(-((kappa * x) ** delta))


def _pow3(x: Array, c: Array, a: Array, alpha: Array) -> Array:
    return c - a * x**-alpha


def _pow4(x: Array, c: Array, a: Array, b: Array, alpha: Array) -> Array:
    return c - (a * x + b) ** -alpha


def _loglog_linear(x: Array, a: Array, b: Array) -> Array:
    return np.log(a * np.log(x) + b)


def _mmf(x: Array, alpha: Array, beta: Array, kappa: Array, delta: Array) -> Array:
    return alpha - (alpha - beta) / (1 + (kappa * x) ** delta)


def _janoschek(x: Array, alpha: Array, beta: Array, kappa: Array, delta: Array) -> Array:
    return alpha - (alpha - beta) * np.exp(-kappa * x**delta)


def _hill3(x: Array, theta: Array, eta: Array, kappa: Array) -> Array:
    return theta * x**eta / (kappa**eta + x**eta)


def _log_power(x: Array, a: Array, b: Array, c: Array) -> Array:
    return a / (1 + (x / np.exp(b)) ** c)


def _exp4(x: Array, c: Array, a: Array, b: Array, alpha: Array) -> Array:
    return c - np.exp(-a * x**alpha + b)


FAMILIES: tuple[Family, ...] = (
    Family("vap", {"a": -0.622028, "b": -0.470050, "c": 0.042322}, _vap),
    Family("ilog2", {"c": 0.78, "a": 0.43}, _ilog2),
    Family("weibull", {"alpha": 0.7, "beta": 0.1, "kappa": 0.01, "delta": 1.0}, _weibull),
    Family("pow3", {"c": 0.84, "a": 0.52, "alpha": 0.01}, _pow3),
    Family("pow4", {"c": 0.8, "a": 200.0, "b": 0.0, "alpha": 0.1}, _pow4),
    Family("loglog_linear", {"a": 1.0, "b": 1.0}, _loglog_linear),
    Family("mmf", {"alpha": 0.7, "beta": 0.1, "kappa": 0.01, "delta": 5.0}, _mmf),
    Family("janoschek", {"alpha": 0.73, "beta": 0.07, "kappa": 0.355, "delta": 0.46}, _janoschek),
    Family("hill3", {"theta": 0.772320, "eta": 0.586449, "kappa": 2.460843}, _hill3),
    Family("log_power", {"a": 0.77, "b": 2.98, "c": -0.51}, _log_power),
    Family("exp4", {"c": 0.7, "a": 0.8, "b": -0.8, "alpha": 0.3}, _exp4),
)
