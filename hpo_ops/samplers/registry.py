"""The samplers that a study may name, and their options. Imports Optuna only when it is needed."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

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
    for option, value in options.items():
        if option not in allowed:
            raise ValueError(
                f"sampler.{option} is not an option of {name}; options: {', '.join(allowed)}"
            )
        _check_kind(option, value, parameters[option])
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


def _check_kind(option: str, value: object, parameter: inspect.Parameter) -> None:
    """Holds an option to the kind of its default: samplers look at it when they are asked."""
    kinds: tuple[type, ...] | None = None
    default = parameter.default
    if isinstance(default, bool):
        kinds, wanted = (bool,), "true or false"
    elif isinstance(default, int):
        kinds, wanted = (int,), "a whole number"
    elif isinstance(default, float):
        kinds, wanted = (int, float), "a number"
    elif "Callable" in str(parameter.annotation):
        kinds, wanted = (), "left out: it takes a function"
    is_flag = isinstance(value, bool) and kinds != (bool,)
    if kinds is not None and (is_flag or not isinstance(value, kinds)):
        raise ValueError(f"sampler.{option} is {value!r}, but must be {wanted}")


def _load(target: str) -> type[BaseSampler]:
    module, _, name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
        kind = importlib.import_module("optuna.samplers").BaseSampler
    except Exception as error:  # a user's module may raise anything
        raise ValueError(f"sampler is {target!r}, but it cannot be imported: {error}") from error
    if not isinstance(found, type) or not issubclass(found, kind):
        raise ValueError(f"sampler is {target!r}, but must be a kind of Optuna's BaseSampler")
    return cast("type[BaseSampler]", found)  # looked at above, by a class loaded when needed
