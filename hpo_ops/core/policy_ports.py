"""The ports: what every plug-in implements. No base classes, a checker proves conformity."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from hpo_ops.core.decisions import Allocation, Capacity, Decision, TrialGroup
from hpo_ops.core.study_view import Study
from hpo_ops.core.trial_state import Trial


class Scheduler(Protocol):
    """Who runs, and how long.

    A scheduler is a frozen value: a view of the study in, a decision out. It has no clock, no I/O
    and no memory of its own, since each call may be in another process.
    """

    @property
    def max_steps(self) -> int | None:
        """Steps of a whole trial; None where the training code decides."""
        ...

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        """What to put on free places: new trials, resumed ones, or nothing, and why."""
        ...

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        """Whether a trial that has just reported continues, pauses or stops, and why."""
        ...


@runtime_checkable
class Forecasting(Protocol):
    """A scheduler that reads ``trial.forecast``: a new one is wanted every so many steps."""

    @property
    def forecast_every(self) -> int:
        """Steps between two forecasts of a trial's curve."""
        ...


class Allocator(Protocol):
    """How much each trial of a group gets. A frozen value, like a scheduler."""

    def allocate(
        self, study: Study, group: TrialGroup, capacity: Capacity, now: float
    ) -> Allocation:
        """Resources for the members of a group, in the order of the group.

        The group holds every trial that runs or is to run, each by number; what runs now and is
        placed with another width is resized, what is not placed waits.
        """
        ...


@runtime_checkable
class StaticAllocator(Protocol):
    """An allocator whose answer stays the same until a trial comes or goes, or capacity does."""

    @property
    def lasts(self) -> Literal[True]:
        """That it does: nobody needs to ask it when a trial has reported."""
        ...
