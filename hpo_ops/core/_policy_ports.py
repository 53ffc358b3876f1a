"""The policy ports: protocols that schedulers and allocators implement.

There are no base classes: mypy and the contract tests in ``tests/contracts`` prove conformity.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from hpo_ops.core._study_view import Study
from hpo_ops.core.decisions import Allocation, Capacity, Decision, TrialGroup
from hpo_ops.core.trial_state import Trial


class Scheduler(Protocol):
    """Decides which trials run, and for how long.

    A scheduler is a frozen value: a view of the study in, a decision out. It has no clock, no I/O
    and no state of its own, since each call may be made in another process. The same study must
    get the same answer.
    """

    @property
    def pauses(self) -> bool:
        """Whether the scheduler may pause trials; a class attribute, the same for all options.

        Studies of a pausing scheduler have ``flow: rolling``, and Airflow keeps the task of every
        paused trial.
        """
        ...

    @property
    def copies(self) -> bool:
        """Whether trials start from the checkpoints of others; a class attribute.

        Studies of a copying scheduler have ``flow: rolling``, and recorded traces cannot be
        replayed under it.
        """
        ...

    @property
    def max_steps(self) -> int | None:
        """Steps of a full-length trial; None where the training code decides."""
        ...

    @property
    def rungs(self) -> tuple[int, ...] | None:
        """Steps at which a segment may end for a decision between rounds (``at_barrier``).

        Empty where no trial is ever paused or stopped. None where the scheduler decides while
        trials run: its studies cannot have ``reproducible: true``.
        """
        ...

    @property
    def forecast_every(self) -> int | None:
        """Steps between two forecasts of a learning curve; None where none are needed.

        A scheduler with a number here reads ``trial.forecast``, and must have ``max_steps``.
        """
        ...

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        """Which trials to start or resume on the free slots, and why no others.

        Args:
            study: The study.
            free: Number of free slots. The group must not be larger.
            now: Seconds since the study started.
        """
        ...

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        """Whether a trial that has just reported continues, pauses or stops, and why.

        A paused trial keeps its checkpoint and may be resumed by ``next``. A stopped trial cannot
        be resumed; its checkpoints may be deleted.

        Args:
            study: The study, which has the report already.
            trial: The trial that reported.
            now: Seconds since the study started.
        """
        ...


class Allocator(Protocol):
    """Decides how many units each running trial gets. A frozen value, like a scheduler."""

    def allocate(
        self, study: Study, group: TrialGroup, capacity: Capacity, now: float
    ) -> Allocation:
        """Units for the members of a group.

        A running trial that is placed with another width is restarted from its checkpoint with
        that width. A running trial that is not placed is paused until units are free.

        Args:
            study: The study.
            group: All trials that run or are to run, each with its number.
            capacity: The units of the pool.
            now: Seconds since the study started.
        """
        ...


@runtime_checkable
class StaticAllocator(Protocol):
    """An allocator whose answer depends only on which trials there are and on the capacity.

    It is not asked again when a trial has reported.
    """

    @property
    def is_static(self) -> Literal[True]:
        """Always true; its presence marks the class."""
        ...
