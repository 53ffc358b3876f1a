"""The samplers that a study may name, and their options. Imports Optuna only when it is needed."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpo_ops.core.space import Space

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

SAMPLERS: Mapping[str, str] = {
    "random": "optuna.samplers:RandomSampler",
    "tpe": "optuna.samplers:TPESampler",
    "gp": "optuna.samplers:GPSampler",
    "cmaes": "optuna.samplers:CmaEsSampler",
    "qmc": "optuna.samplers:QMCSampler",
    "nsgaii": "optuna.samplers:NSGAIISampler",
    "nsgaiii": "optuna.samplers:NSGAIIISampler",
    "grid": "optuna.samplers:GridSampler",
    "brute_force": "optuna.samplers:BruteForceSampler",
}
"""Short names of samplers."""

MULTI_OBJECTIVE = frozenset(
    {"random", "tpe", "gp", "qmc", "nsgaii", "nsgaiii", "grid", "brute_force"}
)
"""Samplers that take several metrics."""

ONE_SEQUENCE = frozenset({"qmc", "grid"})
"""Samplers that walk along one sequence, which a seed for each trial would break."""

CONSTRAINTS = "hpo:constraints"
"""User attribute of a trial: by how much it violates each constraint."""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    # Trials of one batch are proposed while the others run: tell TPE to keep away from those.
    "tpe": {"constant_liar": True},
}
_OURS = ("seed", "search_space", "constraints_func")
"""Arguments that the study sets itself."""


def check_sampler(name: str, options: Mapping[str, Any], space: Space) -> None:
    """Checks a sampler's name, and its options where there are any.

    Raises:
        ValueError: The name or an option is not allowed; the message names it and what is.
    """
    if name not in SAMPLERS and ":" not in name:
        raise ValueError(
            f"sampler is {name!r}, but must be one of {', '.join(SAMPLERS)} or module:Class"
        )
    if name == "grid":
        space.grid()
    if options or ":" in name:
        create_sampler(name, options, seed=0, space=space)


def create_sampler(
    name: str,
    options: Mapping[str, Any],
    *,
    seed: int,
    space: Space,
    has_constraints: bool = False,
) -> BaseSampler:
    """Makes a sampler, seeded where its class takes a seed."""
    sampler = _load(SAMPLERS.get(name, name))
    parameters = inspect.signature(sampler).parameters
    allowed = sorted(set(parameters) - set(_OURS))
    for option in options:
        if option not in allowed:
            raise ValueError(
                f"sampler.{option} is not an option of {name}; options: {', '.join(allowed)}"
            )
    arguments = {**_DEFAULTS.get(name, {}), **options}
    if "seed" in parameters:
        arguments["seed"] = seed
    if "search_space" in parameters:
        arguments["search_space"] = space.grid()
    if has_constraints and "constraints_func" in parameters:
        arguments["constraints_func"] = _violations
    try:
        made: BaseSampler = sampler(**arguments)
    except ImportError as error:
        raise ValueError(f"sampler {name} needs a package: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"sampler {name} with {dict(options)}: {error}") from error
    return made


def _violations(trial: FrozenTrial) -> Sequence[float]:
    values: Sequence[float] = trial.user_attrs.get(CONSTRAINTS, ())
    return values


def _load(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"sampler is {target!r}, but it cannot be imported: {error}") from error
    return found
