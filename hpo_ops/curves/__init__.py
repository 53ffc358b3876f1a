"""Learning-curve prediction: how a trial's score goes on, with how much certainty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from hpo_ops.core.options import create_policy
from hpo_ops.curves.forecast import QuantileForecast
from hpo_ops.curves.mcmc import McmcEnsemble
from hpo_ops.curves.port import CurvePredictor
from hpo_ops.curves.projected import ProjectedEnsemble
from hpo_ops.curves.remaining import Remaining, expected_remaining, remaining_of
from hpo_ops.curves.wandering import WanderingEnsemble

PREDICTORS: Mapping[str, type[CurvePredictor]] = {
    "projected": ProjectedEnsemble,
    "wandering": WanderingEnsemble,
    "mcmc": McmcEnsemble,
}
"""The predictors with a short name; the fields of each class are its options."""


def create_predictor(name: str, options: Mapping[str, object]) -> CurvePredictor:
    """Makes a predictor from a short name or ``their.module:Class``, and its options.

    Raises:
        ValueError: The name or an option is not allowed; the message names it and what is.
    """
    # A class named by a user cannot be checked for its methods before it is called.
    return cast(CurvePredictor, create_policy("curves", PREDICTORS, name, options))


__all__ = [
    "PREDICTORS",
    "CurvePredictor",
    "McmcEnsemble",
    "ProjectedEnsemble",
    "QuantileForecast",
    "Remaining",
    "WanderingEnsemble",
    "create_predictor",
    "expected_remaining",
    "remaining_of",
]
