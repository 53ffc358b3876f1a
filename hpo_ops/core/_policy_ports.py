"""The policy ports: protocols that schedulers and allocators implement.

There are no base classes: mypy and the tests in ``tests/contracts`` check that policies conform.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from hpo_ops.core._study_view import Study
from hpo_ops.core.decisions import Allocation, Capacity, Decision, TrialGroup
from hpo_ops.core.trial_state import Trial


class Scheduler(Protocol):
    """Decides which trials run, and for how long.

    A scheduler is an immutable object that maps a view of the study to a decision. It has no
    clock, no I/O and no state of its own, since each call may be made in another process. The
    same view must always give the same decision.
    """

    @property
    def pauses(self) -> bool:
        """Whether the scheduler may pause trials; a class attribute that no option changes.

        A study with such a scheduler must be a rolling study (``flow: rolling``), in which every
        paused trial has an unfinished Airflow task.
        """
        ...

    @property
    def copies(self) -> bool:
        """Whether new trials may start from checkpoints of other trials; a class attribute.

        A study with such a scheduler must be a rolling study (``flow: rolling``), and the
        simulator cannot replay recorded traces with the scheduler.
        """
        ...

    @property
    def max_steps(self) -> int | None:
        """Steps of a full-length trial; None if the training code decides."""
        ...

    @property
    def rungs(self) -> tuple[int, ...] | None:
        """Steps at which a segment may end so that the scheduler can decide between two rounds.

        A round is a batch of trials that run together (see ``Goal.at_barrier``). Empty if the
        scheduler never pauses or stops a trial. None if the scheduler decides while trials run:
        its studies cannot have ``reproducible: true``.
        """
        ...

    @property
    def forecast_every(self) -> int | None:
        """Steps between two forecasts of a learning curve; None if no forecasts are needed.

        A scheduler that uses ``trial.forecast`` returns a number, and must have ``max_steps``.
        """
        ...

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        """Returns the group of trials to start or resume on the free slots, with the reason.

        The group is empty if no trial should start or resume.

        Args:
            study: The study.
            free: Number of free slots; the group must not have more members.
            now: Seconds since the study started.
        """
        ...

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        """Decides whether a trial that has just reported continues, pauses or stops.

        A paused trial keeps its checkpoint and may be resumed by ``next``. A stopped trial cannot
        be resumed; its checkpoints may be deleted.

        Args:
            study: The study, which already includes the report.
            trial: The trial that reported.
            now: Seconds since the study started.
        """
        ...


class Allocator(Protocol):
    """Decides how many units (such as GPUs) each running trial gets.

    An allocator is an immutable object without state of its own, like a scheduler.
    """

    def allocate(
        self, study: Study, group: TrialGroup, capacity: Capacity, now: float
    ) -> Allocation:
        """Assigns units to the members of a group.

        A running trial that gets another width (number of units, or a fraction of one unit) is
        restarted from its checkpoint with that width. A running trial that gets no units is
        paused until units are free.

        Args:
            study: The study.
            group: All trials that run or should run. Each member must have a trial number.
            capacity: The units of the pool.
            now: Seconds since the study started.
        """
        ...


@runtime_checkable
class StaticAllocator(Protocol):
    """An allocator whose allocation depends only on the set of trials and on the capacity.

    The allocator is not called again after a report.
    """

    @property
    def is_static(self) -> Literal[True]:
        """Always true: an allocator with this attribute is treated as static."""
        ...
