"""The samplers that a study may name, and their options. Imports Optuna only when it is needed."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hpo_ops.core.search_space import MAX_GRID, Space
from hpo_ops.isolation.allowlist import is_allowed, load_allowed, registered

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
    "reinforce": "hpo_ops.samplers.reinforce:ReinforceSampler",
}
"""Short names of samplers."""

GROUP = "hpo_ops.samplers"
"""Entry points under which installed packages announce samplers."""

MULTI_OBJECTIVE = frozenset(
    {"random", "tpe", "gp", "qmc", "nsgaii", "nsgaiii", "grid", "brute_force"}
)
"""Samplers that take several metrics."""

ONE_SEQUENCE = frozenset({"qmc", "grid", "reinforce"})
"""Samplers that walk along one sequence, which a seed for each trial would break."""

LISTING: Mapping[str, int] = {
    "optuna.samplers:BruteForceSampler": MAX_GRID,
    "optuna.samplers:GPSampler": 1_000_000,
}
"""Samplers that list every value of a whole number or of a range with a step: the most that one
parameter may have."""

_PACKAGES: Mapping[str, str] = {"reinforce": "torch"}
"""What a sampler needs besides Optuna."""

CONSTRAINTS = "hpo:constraints"
"""User attribute of a trial: by how much it violates each constraint."""

WARM_START = "hpo:warm_start"
"""User attribute of a study: what was taken from another one, and what was left out."""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    # Trials of one batch are proposed while the others run: tell TPE to keep away from those.
    "tpe": {"constant_liar": True},
}
METHODS = ("sample_hyperparameter_candidates", "update_state")
"""What an algorithm of the user's has."""
_OURS = ("seed", "space", "search_space", "constraints_func")
"""Arguments that the study sets itself."""


def check_sampler(name: str, options: Mapping[str, Any], space: Space, *, code: str = "") -> None:
    """Checks a sampler's name, and its options where there are any.

    Args:
        name: A short name or ``module:Class``.
        options: The sampler's options.
        space: The study's space.
        code: The study's code folder, where an algorithm of the user's may be. What is in it is
            not imported here.

    Raises:
        ValueError: The name or an option is not allowed; the message names it and what is.
    """
    if name not in SAMPLERS and ":" not in _target(name):
        known = ", ".join([*SAMPLERS, *registered(GROUP)])
        raise ValueError(f"sampler is {name!r}, but must be one of {known} or module:Class")
    if (package := _PACKAGES.get(name)) and importlib.util.find_spec(package) is None:
        raise ValueError(f"sampler is {name!r}, but it needs {package}, which is not installed")
    if ":" in name and not _is_known_place(name, code):
        raise ValueError(
            f"sampler is {name!r}, but it cannot be imported: its module is neither in the code "
            "folder nor installed"
        )
    if name == "grid":
        space.check_grid()
    _check_values(name, space)
    if options or ":" in name:
        create_sampler(name, options, seed=0, space=space, code=code)


def algorithm_folder(name: str, code: str) -> Path | None:
    """The code folder, if it has the module of a ``module:Class``; that one is a user's algorithm.

    Args:
        name: The sampler.
        code: The code folder; looked at if it is an absolute path.
    """
    module, colon, _ = name.partition(":")
    parts = module.split(".")
    folder = Path(code)
    if not colon or not folder.is_absolute() or not all(map(str.isidentifier, parts)):
        return None
    path = folder.joinpath(*parts)
    files = (path.with_suffix(".py"), path / "__init__.py")
    return folder if any(file.is_file() for file in files) else None


def is_algorithm(name: str, code: str = "") -> bool:
    """Whether a sampler is a user's algorithm with two methods, rather than one of Optuna's.

    A class of the code folder is one, and so is an installed class that the operator has not
    allowed: neither is ever imported here, both run in a sandbox.
    """
    target = _target(name)
    if name in SAMPLERS or ":" not in target:
        return False
    if algorithm_folder(target, code) is not None or not _is_trusted(target):
        return True
    return not issubclass(*_load(target))


def is_one_sequence(name: str, code: str = "") -> bool:
    """Whether the asks of a study share one seed, since the sampler has a story of its own."""
    return name in ONE_SEQUENCE or is_algorithm(name, code)


def create_sampler(
    name: str,
    options: Mapping[str, Any],
    *,
    seed: int,
    space: Space,
    has_constraints: bool = False,
    code: str = "",
) -> BaseSampler:
    """Makes a sampler, seeded where its class takes a seed."""
    if is_algorithm(name, code):
        return _create_own(name, options, seed=seed, space=space, code=code)
    sampler, _ = _load(_target(name))
    parameters = inspect.signature(sampler).parameters
    allowed = sorted(set(parameters) - set(_OURS))
    for option, value in options.items():
        if option not in allowed:
            raise ValueError(
                f"sampler.{option} is not an option of {name}; options: {', '.join(allowed)}"
            )
        _check_kind(option, value, parameters[option])
    _check_values(name, space)
    arguments = {**_DEFAULTS.get(name, {}), **options}
    if "seed" in parameters:
        arguments["seed"] = seed
    if "space" in parameters:
        arguments["space"] = space
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


def _create_own(
    name: str, options: Mapping[str, Any], *, seed: int, space: Space, code: str
) -> BaseSampler:
    own = importlib.import_module("hpo_ops.samplers.user_algorithm")
    folder = algorithm_folder(name, code)
    try:
        made: BaseSampler = own.OwnSampler(
            _target(name), folder=folder, space=space, seed=seed, options=options
        )
    except ValueError as error:
        raise ValueError(f"sampler.{error}") from error
    return made


def _check_values(name: str, space: Space) -> None:
    """Refuses a space that a sampler would fill the memory with."""
    if (most := LISTING.get(_target(name))) is not None:
        space.check_listable(name, most)


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


def _target(name: str) -> str:
    """A sampler's ``module:Class``, where it is named by a short name."""
    return SAMPLERS.get(name) or registered(GROUP).get(name, name)


def _is_trusted(target: str) -> bool:
    """Whether a class may be imported here: Optuna's, ours, or one that the operator allows."""
    return _is_ours(target) or is_allowed(target, group=GROUP)


def _is_ours(target: str) -> bool:
    return target in SAMPLERS.values() or target.startswith("optuna.samplers:")


def _is_known_place(name: str, code: str) -> bool:
    """Whether the module of a ``module:Class`` exists, found without importing any of it."""
    if algorithm_folder(name, code) is not None or _is_trusted(name):
        return True
    parts = name.partition(":")[0].split(".")
    if not all(map(str.isidentifier, parts)):
        return False
    found = importlib.util.find_spec(parts[0])  # a name without dots: nothing is imported
    for end in range(2, len(parts) + 1):
        if found is None or found.submodule_search_locations is None:
            return False
        found = PathFinder.find_spec(".".join(parts[:end]), found.submodule_search_locations)
    return found is not None


def _load(target: str) -> tuple[type[BaseSampler], type[BaseSampler]]:
    """A trusted class, and Optuna's base of samplers.

    Raises:
        ValueError: The class is not trusted, cannot be imported, or is no sampler.
    """
    try:
        found = _import(target)
    except ValueError as error:
        raise ValueError(f"sampler is {target!r}, but {error}") from error
    kind = importlib.import_module("optuna.samplers").BaseSampler
    is_own = all(callable(getattr(found, method, None)) for method in METHODS)
    if not isinstance(found, type) or not (issubclass(found, kind) or is_own):
        raise ValueError(
            f"sampler is {target!r}, but must be a kind of Optuna's BaseSampler, "
            f"or have the methods {' and '.join(METHODS)}"
        )
    return cast("type[BaseSampler]", found), kind  # looked at above, by a class loaded when needed


def _import(target: str) -> object:
    if not _is_ours(target):
        return load_allowed(target, group=GROUP)
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (AttributeError, ImportError) as error:
        raise ValueError(f"it cannot be imported: {error}") from error
