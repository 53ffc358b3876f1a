"""The operator's allowlist: classes and functions that may run in the platform's own processes.

A study names a policy as ``module:Class``. The platform imports that module only if an operator
has allowed it: by installing a package that announces the class as an entry point, or by the
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
    """The classes that installed packages announce under a group of entry points, by name.

    Args:
        group: Such as ``hpo_ops.schedulers``; empty for none.
    """
    return _registered(group) if group else {}


@lru_cache(maxsize=16)
def _registered(group: str) -> dict[str, str]:
    return {entry.name: entry.value for entry in entry_points(group=group)}


def is_allowed(target: str, *, group: str = "") -> bool:
    """Whether ``module:Class`` may be imported in this process.

    Args:
        target: The class or function.
        group: The entry points that allow it besides the setting.
    """
    if _accepts_all.get():
        return True
    listed = (item.strip() for item in os.environ.get(VARIABLE, "").split(","))
    return target in listed or target in registered(group).values()


def load_allowed(target: str, *, group: str = "") -> object:
    """What ``module:Class`` names, imported only if the operator has allowed it.

    Raises:
        NotAllowedError: The operator has not allowed it. Nothing was imported.
        ValueError: It is allowed, but cannot be imported; says why.
    """
    if not is_allowed(target, group=group):
        raise NotAllowedError(f"the operator of this platform has not allowed it ({VARIABLE})")
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # a module may raise anything while it is imported
        raise ValueError(f"it cannot be imported: {error}") from error
