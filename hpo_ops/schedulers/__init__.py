"""Schedulers: who runs, and how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from hpo_ops.core import Scheduler
from hpo_ops.core.policy_options import create_policy
from hpo_ops.schedulers.asha import Asha
from hpo_ops.schedulers.asha_promoting import AshaPromoting
from hpo_ops.schedulers.asha_speculative import AshaSpeculative
from hpo_ops.schedulers.bandit import Bandit
from hpo_ops.schedulers.default import Default
from hpo_ops.schedulers.early_term import EarlyTerm
from hpo_ops.schedulers.halving import Halving
from hpo_ops.schedulers.hyperband import Hyperband
from hpo_ops.schedulers.hypersched import HyperSched
from hpo_ops.schedulers.median import Median
from hpo_ops.schedulers.patient import Patient
from hpo_ops.schedulers.pbt import Pbt
from hpo_ops.schedulers.percentile import Percentile
from hpo_ops.schedulers.pop import Pop
from hpo_ops.schedulers.threshold import Threshold

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
"""The schedulers with a short name; the fields of each class are its options."""


PAUSING = frozenset({"asha_promoting", "asha_speculative", "halving", "hypersched", "pop"})
"""Schedulers that pause trials: their studies are rolling."""


ROLLING = PAUSING | {"pbt"}
"""Schedulers whose studies are rolling: those, and one that copies trials while they run."""


def create_scheduler(name: str, options: Mapping[str, object]) -> Scheduler:
    """Makes a scheduler from a study file's words.

    >>> create_scheduler("asha", {"max_steps": 9})
    Asha(min_steps=1, max_steps=9, eta=3)

    Args:
        name: A short name (see ``SCHEDULERS``), or ``their.module:Class`` if the operator has
            allowed that class.
        options: The scheduler's own options.

    Raises:
        ValueError: The name or an option is not allowed; the message names it and what is.
    """
    made = create_policy(
        "scheduler",
        SCHEDULERS,
        name,
        options,
        methods=("next", "on_report"),
        group="hpo_ops.schedulers",
    )
    if not hasattr(made, "max_steps"):  # a field without a default is no attribute of the class
        raise ValueError(f"scheduler.name is {name!r}, but that class has no max_steps")
    return cast(Scheduler, made)


__all__ = [
    "PAUSING",
    "ROLLING",
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
]
