"""HyperSched: asynchronous successive halving (ASHA) with a deadline."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import ClassVar

from hpo_ops.core import Decision, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.decisions import CONTINUE, PAUSE, STOP
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.schedulers._asha import Asha
from hpo_ops.schedulers._asha_promoting import AshaPromoting, resume_interrupted
from hpo_ops.schedulers._asha_speculative import AshaSpeculative
from hpo_ops.schedulers._hypersched_admission import Admission
from hpo_ops.schedulers.rungs import rung_index


class Variant(StrEnum):
    """The variants of ASHA that HyperSched can extend: stopping, promoting, speculative."""

    STOPPING = "stopping"
    PROMOTING = "promoting"
    SPECULATIVE = "speculative"


@dataclass(frozen=True, kw_only=True)
class HyperSched:
    """ASHA that starts no trial that cannot catch up with the leaders before the deadline.

    Liaw et al., "HyperSched: Dynamic Resource Reallocation for Model Development on a Deadline",
    SoCC 2019 (https://doi.org/10.1145/3357223.3362719). A trial starts or is promoted only while
    T_left > min(furthest trial's time * eta, time of a step on one unit * R), where T_left is the
    time to the deadline and the furthest trial has the longest training time. Once trials are
    refused, the allocator ``uniform`` gives the free units (such as GPUs) to the running trials.
    At the deadline every trial is stopped.

    Departures: the furthest trial is chosen among the running trials. As published, it is chosen
    among all trials, and paused trials are dropped once a trial is refused; then a study ends when
    its running trials complete, often with half of its time left, since these trials had all
    units. Here paused trials stay paused, and are considered again when the furthest trial has
    completed (``readmit: false`` restores the published behaviour). The time of the furthest
    trial is its training time without start-ups, as in the authors' code. At equality a trial is
    refused, as on the authors' slides. Interrupted trials are resumed however little time is left,
    and the best trial is never paused. While more than eta times the age of the study is left,
    trials are admitted even if trials from the score cache have a longer training time. Without a
    deadline this is plain ASHA.

    Example:
        >>> HyperSched(max_steps=100, variant=Variant.PROMOTING).eta
        4

    Attributes:
        min_steps: Steps to the first rung (r).
        max_steps: Steps of a full-length trial (R).
        eta: Reduction factor: about one trial in eta continues from each rung (η).
        variant: Stopping, promoting or speculative ASHA.
        readmit: Whether trials may start or resume again once the furthest trial has completed.
    """

    pauses: ClassVar[bool] = True
    copies: ClassVar[bool] = False
    rungs: ClassVar[tuple[int, ...] | None] = None
    forecast_every: ClassVar[int | None] = None

    min_steps: int = 1
    max_steps: int
    eta: int = 4
    variant: Variant = Variant.SPECULATIVE
    readmit: bool = True

    def __post_init__(self) -> None:
        check_at_least("min_steps", self.min_steps, 1)
        check_at_least("max_steps", self.max_steps, self.min_steps)
        check_at_least("eta", self.eta, 2)

    @cached_property
    def asha(self) -> Asha | AshaPromoting | AshaSpeculative:
        """The ASHA scheduler of the chosen variant, which HyperSched extends."""
        kinds: dict[Variant, type[Asha] | type[AshaPromoting] | type[AshaSpeculative]] = {
            Variant.STOPPING: Asha,
            Variant.PROMOTING: AshaPromoting,
            Variant.SPECULATIVE: AshaSpeculative,
        }
        return kinds[self.variant](
            min_steps=self.min_steps, max_steps=self.max_steps, eta=self.eta
        )

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if free <= 0:
            return TrialGroup((), "no slot is free")
        deadline = study.goal.deadline_seconds
        if deadline is None:
            return self.asha.next(study, free, now)
        left = deadline - now
        # No trial has trained for longer than the study has run, which usually decides it.
        if left > self.eta * now or (left > 0 and self._admission.has_time(study, left)):
            return self.asha.next(study, free, now)
        interrupted = self._interrupted(study)
        members = tuple(
            member
            for member in resume_interrupted(study, interrupted, free, lambda *_: self.max_steps)
            if left > 0 and member.trial is not None and study.trials[member.trial].step
        )
        bound = self._admission.bound(study)
        reason = f"{max(left, 0):.0f} s are left, but a new trial needs more than {bound:.0f} s"
        is_over = left <= 0 or not (members or study.in_state(TrialState.RUNNING))
        if self.readmit and not is_over:
            return TrialGroup(members, reason)
        kept = {member.trial for member in members}
        dropped = tuple(
            number
            for state in (TrialState.PAUSED, TrialState.WAITING)
            for number in study.in_state(state)
            if number not in kept
        )
        return TrialGroup(members, reason, dropped)

    @cached_property
    def _admission(self) -> Admission:
        return Admission(
            eta=self.eta,
            min_steps=self.min_steps,
            max_steps=self.max_steps,
            readmit=self.readmit,
        )

    def _interrupted(self, study: Study) -> Collection[Trial]:
        """Returns the paused trials that were interrupted between two rungs."""
        asha = self.asha
        if isinstance(asha, AshaSpeculative):
            return asha.interrupted(study)
        return rung_index(study, asha.rungs).interrupted.values()

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        deadline = study.goal.deadline_seconds
        if deadline is not None and now >= deadline:
            return Decision(STOP, "the deadline has passed")
        decision = self.asha.on_report(study, trial, now)
        if decision.action is PAUSE and study.best is trial and deadline is not None:
            return Decision(CONTINUE, f"the best trial is not paused ({decision.reason})")
        return decision
