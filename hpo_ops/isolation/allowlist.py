"""The operator's allowlist: classes and functions that may run in the platform's own processes.

A study names a policy as ``module:Class``. The platform imports that module only if an operator
has allowed it: by installing a package that registers the class as an entry point, or by the
variable ``HPO_ALLOWED_CLASSES``. By default the list is empty.
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
"""Setting: ``module:Class`` and ``module:function``, separated by commas."""

_accepts_all: ContextVar[bool] = ContextVar("accepts_all_installed_classes", default=False)


class NotAllowedError(ValueError):
    """A study names code that the operator has not allowed."""


@contextmanager
def all_installed_classes_allowed() -> Iterator[None]:
    """Allows every installed class while the context lasts.

    For commands that a user runs on their own machine: the user's code then runs in the user's own
    process. Never for a process that serves requests or holds credentials of the platform. Other
    threads are not affected.
    """
    token = _accepts_all.set(True)
    try:
        yield
    finally:
        _accepts_all.reset(token)


def registered(group: str) -> Mapping[str, str]:
    """Returns the classes that installed packages register in an entry-point group, by name.

    Args:
        group: The group, such as ``hpo_ops.schedulers``; empty for no classes.
    """
    return _registered(group) if group else {}


@lru_cache(maxsize=16)
def _registered(group: str) -> dict[str, str]:
    return {entry.name: entry.value for entry in entry_points(group=group)}


def is_allowed(target: str, *, group: str = "") -> bool:
    """Tells whether ``module:Class`` may be imported in this process.

    Args:
        target: The class or function.
        group: An entry-point group whose classes are allowed too, besides the setting.
    """
    if _accepts_all.get():
        return True
    listed = (item.strip() for item in os.environ.get(VARIABLE, "").split(","))
    return target in listed or target in registered(group).values()


def load_allowed(target: str, *, group: str = "") -> object:
    """Imports and returns the object of a ``module:Class`` that the operator has allowed.

    Raises:
        NotAllowedError: The operator has not allowed the class. Nothing was imported.
        ValueError: The class is allowed, but cannot be imported; the message says why.
    """
    if not is_allowed(target, group=group):
        raise NotAllowedError(f"the operator of this platform has not allowed it ({VARIABLE})")
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # a module may raise anything while it is imported
        raise ValueError(f"it cannot be imported: {error}") from error
