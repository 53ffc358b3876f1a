"""Learning-curve prediction: probabilistic forecasts of a trial's scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from hpo_ops.core.policy_options import create_policy
from hpo_ops.curves._mcmc import McmcEnsemble
from hpo_ops.curves._predictor_port import CurvePredictor, MissingPackageError
from hpo_ops.curves._projected import ProjectedEnsemble
from hpo_ops.curves._wandering import WanderingEnsemble
from hpo_ops.curves.forecast import QuantileForecast

PREDICTORS: Mapping[str, type[CurvePredictor]] = {
    "projected": ProjectedEnsemble,
    "wandering": WanderingEnsemble,
    "mcmc": McmcEnsemble,
}
"""The predictors that have a short name; the fields of each class are its options."""


def create_predictor(
    name: str, options: Mapping[str, object], *, seed: int | None = None
) -> CurvePredictor:
    """Instantiates a learning-curve predictor from its name and options.

    Args:
        name: A short name (see ``PREDICTORS``), or ``their.module:Class`` if the operator has
            allowed that class.
        options: The predictor's own options.
        seed: Seed for a predictor with a field ``seed``, unless the options set the seed.

    Raises:
        ValueError: The name or an option is not allowed. The message states what is allowed.
    """
    made: Any = create_policy(
        "curves", PREDICTORS, name, options, methods=("predict",), group="hpo_ops.curves"
    )
    draws = is_dataclass(made) and any(item.name == "seed" for item in fields(made))
    if seed is not None and draws and "seed" not in options:
        made = replace(made, seed=seed)
    return cast(CurvePredictor, made)


__all__ = [
    "PREDICTORS",
    "CurvePredictor",
    "McmcEnsemble",
    "MissingPackageError",
    "ProjectedEnsemble",
    "QuantileForecast",
    "WanderingEnsemble",
    "create_predictor",
]
