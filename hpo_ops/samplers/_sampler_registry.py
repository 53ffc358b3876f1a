"""Finds, checks and creates the sampler that a study file names.

Optuna is imported only when a sampler class is loaded.
"""

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
"""The ``module:Class`` of each built-in sampler, by short name."""

GROUP = "hpo_ops.samplers"
"""Entry-point group in which installed packages register samplers."""

MULTI_OBJECTIVE = frozenset(
    {"random", "tpe", "gp", "qmc", "nsgaii", "nsgaiii", "grid", "brute_force"}
)
"""Short names of the samplers that support studies with several objectives."""

ONE_SEQUENCE = frozenset({"qmc", "grid", "reinforce"})
"""Short names of the samplers that use one seed for all trials of a study.

Their draws form one sequence; the other samplers get a new seed for each trial."""

LISTING: Mapping[str, int] = {
    "optuna.samplers:BruteForceSampler": MAX_GRID,
    "optuna.samplers:GPSampler": 1_000_000,
}
"""Samplers that enumerate all values of an integer or stepped parameter, by ``module:Class``, with
the maximum number of values that one parameter may have."""

_PACKAGES: Mapping[str, str] = {"reinforce": "torch"}
"""The package that a sampler needs besides Optuna, by short name of the sampler."""

CONSTRAINTS = "hpo:constraints"
"""Optuna user attribute of a trial: by how much the trial violates each constraint."""

WARM_START = "hpo:warm_start"
"""Optuna user attribute of a study: the result of its warm start (`WarmStartResult`)."""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    # Trials are proposed while others run: this keeps TPE away from running configurations.
    "tpe": {"constant_liar": True},
}
METHODS = ("sample_hyperparameter_candidates", "update_state")
"""Names of the two methods that the class of a user's search algorithm must have."""
_RESERVED = ("seed", "space", "search_space", "constraints_func")
"""Constructor arguments of samplers that are set by the platform and are not options."""


def check_sampler(name: str, options: Mapping[str, Any], space: Space, *, code: str = "") -> None:
    """Checks the name and the options of a sampler.

    A sampler with options, or one that is named as ``module:Class``, is created to check it.

    Args:
        name: The sampler's short name (such as ``tpe``) or its ``module:Class``.
        options: The sampler's options.
        space: The search space of the study.
        code: The study's code folder, which may contain a user's search algorithm. Its modules
            are not imported in this process.

    Raises:
        ValueError: The name or an option is not allowed; the message lists what is allowed.
    """
    if name not in SAMPLERS and ":" not in _target(name):
        known = ", ".join([*SAMPLERS, *registered(GROUP)])
        raise ValueError(f"sampler is {name!r}, but must be one of {known} or module:Class")
    if (package := _PACKAGES.get(name)) and importlib.util.find_spec(package) is None:
        raise ValueError(f"sampler is {name!r}, but it needs {package}, which is not installed")
    if ":" in name and not _module_exists(name, code):
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
    """Returns the code folder if it contains the module of a ``module:Class``, else None.

    A class in the code folder is a user's search algorithm.

    Args:
        name: The ``module:Class`` of the sampler.
        code: The study's code folder; ignored unless it is an absolute path.
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
    """Returns whether a sampler is a user's search algorithm rather than an Optuna sampler.

    A class in the code folder counts as an algorithm, and so does an installed class that the
    operator of the platform has not allowed. Neither is imported in this process; both run in a
    sandbox.
    """
    target = _target(name)
    if name in SAMPLERS or ":" not in target:
        return False
    if algorithm_folder(target, code) is not None or not _is_trusted(target):
        return True
    return not issubclass(*_load(target))


def is_one_sequence(name: str, code: str = "") -> bool:
    """Returns whether a sampler uses one seed for all trials of a study; see `ONE_SEQUENCE`."""
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
    """Creates a sampler from its name and options.

    The seed, the search space and, in a study with constraints, the function that returns a
    trial's violations are passed to the constructor if it has arguments for them.

    Raises:
        ValueError: An option is not allowed, or the sampler cannot be created.
    """
    if is_algorithm(name, code):
        return _create_user_algorithm(name, options, seed=seed, space=space, code=code)
    sampler, _ = _load(_target(name))
    parameters = inspect.signature(sampler).parameters
    allowed = sorted(set(parameters) - set(_RESERVED))
    for option, value in options.items():
        if option not in allowed:
            raise ValueError(
                f"sampler.{option} is not an option of {name}; options: {', '.join(allowed)}"
            )
        _check_type(option, value, parameters[option])
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


def _create_user_algorithm(
    name: str, options: Mapping[str, Any], *, seed: int, space: Space, code: str
) -> BaseSampler:
    module = importlib.import_module("hpo_ops.samplers.user_algorithm")
    folder = algorithm_folder(name, code)
    try:
        made: BaseSampler = module.UserAlgorithmSampler(
            _target(name), folder=folder, space=space, seed=seed, options=options
        )
    except ValueError as error:
        raise ValueError(f"sampler.{error}") from error
    return made


def _check_values(name: str, space: Space) -> None:
    """Checks that no parameter has more values than the sampler can enumerate in memory.

    Raises:
        ValueError: A parameter has too many values.
    """
    if (most := LISTING.get(_target(name))) is not None:
        space.check_listable(name, most)


def _violations(trial: FrozenTrial) -> Sequence[float]:
    values: Sequence[float] = trial.user_attrs.get(CONSTRAINTS, ())
    return values


def _check_type(option: str, value: object, parameter: inspect.Parameter) -> None:
    """Checks that the value of a sampler's option has the type of the option's default value.

    Without this check, some samplers would fail only when they sample.

    Raises:
        ValueError: The value has another type, or the option requires a function, which a study
            file cannot contain.
    """
    kinds: tuple[type, ...] | None = None
    default = parameter.default
    if isinstance(default, bool):
        kinds, wanted = (bool,), "true or false"
    elif isinstance(default, int):
        kinds, wanted = (int,), "an integer"
    elif isinstance(default, float):
        kinds, wanted = (int, float), "a number"
    elif "Callable" in str(parameter.annotation):
        kinds, wanted = (), "omitted: it takes a function"
    is_flag = isinstance(value, bool) and kinds != (bool,)
    if kinds is not None and (is_flag or not isinstance(value, kinds)):
        raise ValueError(f"sampler.{option} is {value!r}, but must be {wanted}")


def _target(name: str) -> str:
    """Returns the ``module:Class`` of a registered short name, or any other name unchanged."""
    return SAMPLERS.get(name) or registered(GROUP).get(name, name)


def _is_trusted(target: str) -> bool:
    """Returns whether a class may be imported in this process.

    Built-in classes and classes that the operator has allowed may be imported.
    """
    return _is_built_in(target) or is_allowed(target, group=GROUP)


def _is_built_in(target: str) -> bool:
    return target in SAMPLERS.values() or target.startswith("optuna.samplers:")


def _module_exists(name: str, code: str) -> bool:
    """Returns whether the module of a ``module:Class`` exists; does not import untrusted code."""
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
    """Imports a trusted sampler class; returns that class and Optuna's `BaseSampler`.

    Raises:
        ValueError: The class is not trusted, cannot be imported, or is not a sampler.
    """
    try:
        found = _import(target)
    except ValueError as error:
        raise ValueError(f"sampler is {target!r}, but {error}") from error
    kind = importlib.import_module("optuna.samplers").BaseSampler
    has_methods = all(callable(getattr(found, method, None)) for method in METHODS)
    if not isinstance(found, type) or not (issubclass(found, kind) or has_methods):
        raise ValueError(
            f"sampler is {target!r}, but must be a subclass of Optuna's BaseSampler, "
            f"or have the methods {' and '.join(METHODS)}"
        )
    return cast("type[BaseSampler]", found), kind  # mypy cannot know the lazily imported class


def _import(target: str) -> object:
    if not _is_built_in(target):
        return load_allowed(target, group=GROUP)
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (AttributeError, ImportError) as error:
        raise ValueError(f"it cannot be imported: {error}") from error
