"""Converts parameters of a search space to Optuna's distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from hpo_ops.core.search_space import Categorical, Float, Int, Parameter

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


def to_distribution(parameter: Parameter) -> BaseDistribution:
    """Converts a parameter to the distribution that Optuna stores with the parameter's value."""
    match parameter:
        case Float(low=low, high=high, log=log, step=step):
            return FloatDistribution(low, high, log=log, step=step)
        case Int(low=low, high=high, log=log, step=step):
            return IntDistribution(low, high, log=log, step=step)
        case Categorical(choices=choices):
            return CategoricalDistribution(choices)
