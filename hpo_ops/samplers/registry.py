"""The samplers that a study may name, and their options. Imports Optuna only when it is needed."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

SAMPLERS: Mapping[str, str] = {
    "random": "optuna.samplers:RandomSampler",
    "tpe": "optuna.samplers:TPESampler",
}
"""Short names of samplers."""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    # Trials of one batch are proposed while the others run: tell TPE to keep away from those.
    "tpe": {"constant_liar": True},
}
_OURS = ("seed", "search_space")
"""Arguments that the study sets itself."""


def check_sampler(name: str, options: Mapping[str, Any]) -> None:
    """Checks a sampler's name, and its options where there are any.

    Raises:
        ValueError: The name or an option is not allowed; the message names it and what is.
    """
    if name not in SAMPLERS and ":" not in name:
        raise ValueError(
            f"sampler is {name!r}, but must be one of {', '.join(SAMPLERS)} or module:Class"
        )
    if options or ":" in name:
        create_sampler(name, options, seed=0)


def create_sampler(name: str, options: Mapping[str, Any], *, seed: int) -> BaseSampler:
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
    try:
        made: BaseSampler = sampler(**arguments)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sampler {name} with {dict(options)}: {error}") from error
    return made


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"sampler is {target!r}, but it cannot be imported: {error}") from error
