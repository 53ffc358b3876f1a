"""The registry of runners, which finds the runner that a study file names.

A runner is a way of executing trials. This package's runners are the folders of
``hpo_ops/runners`` that have a ``runner.py``. Other packages register runners as entry points of
the group ``hpo_ops.runners``, such as ``slurm = "team_slurm.runner:RUNNER"``. A runner is imported
when it is first requested.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hpo_ops.config.runner_port import Runner
from hpo_ops.isolation.allowlist import load_allowed, registered

logger = logging.getLogger(__name__)

GROUP = "hpo_ops.runners"
"""Name of the group of entry points, and of the package with the platform's own runners."""
DEFAULT_RUNNER = "local"
"""Name of the runner for studies that do not set ``runner``."""


class UnknownRunnerError(ValueError):
    """There is no runner with the given name, or the runner cannot be imported."""


@cache
def find_runner(name: str) -> Runner:
    """Returns the runner with the given name.

    Raises:
        UnknownRunnerError: The runner does not exist, in which case the message lists all runners,
            or it cannot be imported.
    """
    own = _own_targets()
    if name not in own and name not in registered(GROUP):
        known = ", ".join(runner_names())
        raise UnknownRunnerError(f"runner is {name!r}, but must be one of {known}")
    target = own.get(name) or registered(GROUP)[name]
    try:
        # An operator allows a runner of another package by installing that package.
        found: Any = _import(target) if name in own else load_allowed(target, group=GROUP)
    except ValueError as error:
        raise UnknownRunnerError(f"runner is {name!r}, but {target}: {error}") from error
    runner: Runner = found
    if runner.name != name:
        raise UnknownRunnerError(f"runner is {name!r}, but {target} is the runner {runner.name!r}")
    return runner


def runner_names() -> list[str]:
    """Returns the names of all runners: the platform's own runners, then other packages'."""
    own = sorted(_own_targets(), key=lambda name: (name != DEFAULT_RUNNER, name))
    return [*own, *sorted(registered(GROUP).keys() - set(own))]


@cache
def all_runners() -> Mapping[str, Runner]:
    """Returns all runners by name; omits runners that cannot be imported, with a warning."""
    found: dict[str, Runner] = {}
    for name in runner_names():
        try:
            found[name] = find_runner(name)
        except UnknownRunnerError as error:
            logger.warning("a runner is left out: %s", error)
    return found


@cache
def generic_dags() -> Mapping[str, str]:
    """Returns the id of each runner's generic DAG (which runs any study), by runner name."""
    return {name: runner.generic_dag for name, runner in all_runners().items()}


def image_runners() -> list[str]:
    """Returns the names of the runners whose trainings run in container images."""
    return [name for name, runner in all_runners().items() if runner.runs_images]


def _import(target: str) -> object:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


@cache
def _own_targets() -> dict[str, str]:
    """Returns the import paths (``module:attribute``) of the platform's own runners by name."""
    spec = importlib.util.find_spec(GROUP)
    folders = [] if spec is None else spec.submodule_search_locations or []
    modules = [path for folder in folders for path in Path(folder).glob("*/runner.py")]
    return {path.parent.name: f"{GROUP}.{path.parent.name}.runner:RUNNER" for path in modules}
