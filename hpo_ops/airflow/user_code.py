"""Functions of the user's that tasks call: criteria and finalizers, from the code folder."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


class UserCodeError(ValueError):
    """A function that the study names cannot be loaded."""


def load_function(key: str, name: str, code: str | None) -> Callable[..., Any]:
    """A user's ``module:function``.

    Args:
        key: The key of the study file that names it, for messages.
        name: The function.
        code: The study's code folder, where its module is looked for first.

    Raises:
        UserCodeError: It cannot be loaded.
    """
    module, _, function = name.partition(":")
    if code is not None and code not in sys.path:
        sys.path.insert(0, code)
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except Exception as error:  # a user's module may raise anything
        raise UserCodeError(f"{key} is {name!r}, but cannot be loaded: {error}") from error
    return found
