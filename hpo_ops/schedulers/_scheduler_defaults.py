"""Defaults for the attributes that a user's scheduler does not define.

A scheduler needs ``max_steps``, ``next`` and ``on_report``. The other attributes of the
`Scheduler` protocol are optional: their defaults are safe for every scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from hpo_ops.core import Decision, Scheduler, Study, Trial, TrialGroup

_ATTRIBUTES = ("pauses", "copies", "rungs", "forecast_every")


@dataclass(frozen=True)
class SchedulerWithDefaults:
    """Wraps a user's scheduler, and adds defaults for the attributes that it does not define.

    Attributes:
        inner: The user's scheduler, which makes all decisions.
    """

    inner: Scheduler

    @property
    def pauses(self) -> bool:
        """Whether the user's scheduler may pause trials; True by default."""
        return getattr(self.inner, "pauses", True)

    @property
    def copies(self) -> bool:
        """Whether new trials may start from checkpoints of other trials; False by default."""
        return getattr(self.inner, "copies", False)

    @property
    def max_steps(self) -> int | None:
        return self.inner.max_steps

    @property
    def rungs(self) -> tuple[int, ...] | None:
        """Rungs of the user's scheduler; by default None, which refuses ``reproducible: true``."""
        return getattr(self.inner, "rungs", None)

    @property
    def forecast_every(self) -> int | None:
        """Steps between two forecasts of a learning curve; by default None: no forecasts."""
        return getattr(self.inner, "forecast_every", None)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        return self.inner.next(study, free, now)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        return self.inner.on_report(study, trial, now)


def with_defaults(scheduler: object) -> Scheduler:
    """Returns a scheduler unchanged if it has all attributes of `Scheduler`, else wrapped.

    The wrapper `SchedulerWithDefaults` adds the missing attributes.

    Args:
        scheduler: An object with ``max_steps``, ``next`` and ``on_report``.
    """
    if all(hasattr(scheduler, name) for name in _ATTRIBUTES):
        return cast(Scheduler, scheduler)
    return SchedulerWithDefaults(cast(Scheduler, scheduler))
