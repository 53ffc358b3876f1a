"""The operator's allowlist: classes and functions that may run in the platform's own processes.

A study names a policy as ``module:Class``. The platform imports that module only if an operator
has allowed the class: by installing a package that registers the class as an entry point, or by
listing the class in the environment variable ``HPO_ALLOWED_CLASSES``, which is empty by default.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points

VARIABLE = "HPO_ALLOWED_CLASSES"
"""Environment variable: a comma-separated list of ``module:Class`` and ``module:function``."""

_accepts_all: ContextVar[bool] = ContextVar("accepts_all_installed_classes", default=False)


class NotAllowedError(ValueError):
    """A study names code that the operator has not allowed."""


@contextmanager
def all_installed_classes_allowed() -> Iterator[None]:
    """Allows every installed class inside the ``with`` block, in the current thread only.

    Commands that a user runs on their own machine enter this context: the user's code then runs
    in the user's own process. A process that serves requests or has the platform's credentials
    must never enter it.
    """
    token = _accepts_all.set(True)
    try:
        yield
    finally:
        _accepts_all.reset(token)


def registered(group: str) -> Mapping[str, str]:
    """Maps the names in an entry-point group to the ``module:Class`` that packages registered.

    Args:
        group: The entry-point group, such as ``hpo_ops.schedulers``; an empty group has no names.
    """
    return _registered(group) if group else {}


@lru_cache(maxsize=16)
def _registered(group: str) -> dict[str, str]:
    return {entry.name: entry.value for entry in entry_points(group=group)}


def is_allowed(target: str, *, group: str = "") -> bool:
    """Returns whether a class or function may be imported in this process.

    Args:
        target: The class or function, as ``module:Class`` or ``module:function``.
        group: An entry-point group whose classes are allowed in addition to those listed in
            ``HPO_ALLOWED_CLASSES``; empty for no group.
    """
    if _accepts_all.get():
        return True
    listed = (item.strip() for item in os.environ.get(VARIABLE, "").split(","))
    return target in listed or target in registered(group).values()


def load_allowed(target: str, *, group: str = "") -> object:
    """Imports and returns a class or function, if the operator has allowed it.

    Args:
        target: The class or function, as ``module:Class`` or ``module:function``.
        group: An entry-point group whose classes are allowed in addition to those listed in
            ``HPO_ALLOWED_CLASSES``; empty for no group.

    Raises:
        NotAllowedError: The operator has not allowed the target. Nothing was imported.
        ValueError: The target is allowed, but cannot be imported; the message states the cause.
    """
    if not is_allowed(target, group=group):
        raise NotAllowedError(f"the operator of this platform has not allowed it ({VARIABLE})")
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # a module may raise anything while it is imported
        raise ValueError(f"it cannot be imported: {error}") from error
