"""Schedulers: policies that decide which trials run, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpo_ops.core import Scheduler
from hpo_ops.core.policy_options import create_policy, find_policy
from hpo_ops.schedulers._asha import Asha
from hpo_ops.schedulers._asha_promoting import AshaPromoting
from hpo_ops.schedulers._asha_speculative import AshaSpeculative
from hpo_ops.schedulers._bandit import Bandit
from hpo_ops.schedulers._default import Default
from hpo_ops.schedulers._early_term import EarlyTerm
from hpo_ops.schedulers._halving import Halving
from hpo_ops.schedulers._hyperband import Hyperband
from hpo_ops.schedulers._hypersched import HyperSched
from hpo_ops.schedulers._median import Median
from hpo_ops.schedulers._patient import Patient
from hpo_ops.schedulers._pbt import Pbt
from hpo_ops.schedulers._percentile import Percentile
from hpo_ops.schedulers._pop import Pop
from hpo_ops.schedulers._scheduler_defaults import with_defaults
from hpo_ops.schedulers._threshold import Threshold

SCHEDULERS: Mapping[str, type[Scheduler]] = {
    "asha": Asha,
    "asha_promoting": AshaPromoting,
    "asha_speculative": AshaSpeculative,
    "bandit": Bandit,
    "default": Default,
    "early_term": EarlyTerm,
    "halving": Halving,
    "hyperband": Hyperband,
    "hypersched": HyperSched,
    "median": Median,
    "patient": Patient,
    "pbt": Pbt,
    "percentile": Percentile,
    "pop": Pop,
    "threshold": Threshold,
}
"""The schedulers that have a short name; the fields of each class are the policy's options."""


_GROUP = "hpo_ops.schedulers"
_METHODS = ("next", "on_report")


def create_scheduler(name: str, options: Mapping[str, object]) -> Scheduler:
    """Instantiates a scheduler from the name and options in a study file.

    A user's scheduler that lacks attributes of the `Scheduler` protocol gets default values; see
    ``SchedulerWithDefaults``.

    >>> create_scheduler("asha", {"max_steps": 9})
    Asha(min_steps=1, max_steps=9, eta=3)

    Args:
        name: A short name (see ``SCHEDULERS``), or ``their.module:Class`` if the operator has
            allowed that class.
        options: The scheduler's own options.

    Raises:
        ValueError: The name or an option is not allowed. The message states what is allowed.
    """
    made = create_policy("scheduler", SCHEDULERS, name, options, methods=_METHODS, group=_GROUP)
    if not hasattr(made, "max_steps"):  # a field without a default is no attribute of the class
        raise ValueError(f"scheduler.name is {name!r}, but that class has no max_steps")
    return with_defaults(made)


def may_pause(name: str) -> bool:
    """Checks whether a scheduler may pause trials, without instantiating the scheduler.

    Returns True for a class without the attribute ``pauses``, and for a class that is not
    installed or not allowed any more.
    """
    return getattr(_class_of(name), "pauses", True) is not False


def why_rolling(name: str) -> str | None:
    """Returns which attribute makes a scheduler require ``flow: rolling``, or None if neither.

    The attribute is ``pauses`` or ``copies``; an attribute that the class lacks counts as false.

    >>> why_rolling("pbt"), why_rolling("asha")
    ('copies', None)
    """
    kind = _class_of(name)
    return next(
        (verb for verb in ("pauses", "copies") if getattr(kind, verb, False) is True), None
    )


def _class_of(name: str) -> type[Any] | None:
    """Returns a scheduler's class, or None if the class is not installed or not allowed."""
    try:
        return find_policy("scheduler", SCHEDULERS, name, methods=_METHODS, group=_GROUP)
    except ValueError:
        return None


__all__ = [
    "SCHEDULERS",
    "Asha",
    "AshaPromoting",
    "AshaSpeculative",
    "Bandit",
    "Default",
    "EarlyTerm",
    "Halving",
    "HyperSched",
    "Hyperband",
    "Median",
    "Patient",
    "Pbt",
    "Percentile",
    "Pop",
    "Threshold",
    "create_scheduler",
    "may_pause",
    "why_rolling",
    "with_defaults",
]
