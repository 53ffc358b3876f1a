"""Schedulers: who runs, and how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from hpo_ops.core import Scheduler
from hpo_ops.core.options import create_policy
from hpo_ops.schedulers.asha import Asha
from hpo_ops.schedulers.default import Default

SCHEDULERS: Mapping[str, type[Scheduler]] = {
    "default": Default,
    "asha": Asha,
}
"""The schedulers with a short name; the fields of each class are its options."""


def create_scheduler(name: str, options: Mapping[str, object]) -> Scheduler:
    """Makes a scheduler from a study file's words.

    >>> create_scheduler("asha", {"max_steps": 9})
    Asha(min_steps=1, max_steps=9, eta=3)

    Args:
        name: A short name (see ``SCHEDULERS``), or ``their.module:Class``.
        options: The scheduler's own options.

    Raises:
        ValueError: The name or an option is not allowed; the message names it and what is.
    """
    # A class named by a user cannot be checked for its methods before it is called.
    return cast(Scheduler, create_policy("scheduler", SCHEDULERS, name, options))


__all__ = ["SCHEDULERS", "Asha", "Default", "create_scheduler"]
