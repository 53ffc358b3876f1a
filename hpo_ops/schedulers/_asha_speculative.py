"""Speculative ASHA: trials keep running until later results put them below a rung's cutoff."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hpo_ops.core import Decision, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.decisions import CONTINUE, PAUSE
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.schedulers._asha_promoting import resume_interrupted
from hpo_ops.schedulers._rung_cutoffs import CutoffIndex
from hpo_ops.schedulers.rungs import next_rung, rung_steps
from hpo_ops.schedulers.slot_filling import add_new, resume

NOT_BELOW = Decision(CONTINUE, "not below the cutoff of any rung that it has passed")


@dataclass(frozen=True, kw_only=True)
class AshaSpeculative:
    """Pauses a trial as soon as its score at a passed rung is below the rung's current cutoff.

    The bracket of HyperSched's code (Liaw et al., SoCC 2019). The cutoff of a rung is the
    (1 - 1/eta) quantile of the scores of trials at that rung. When a trial reaches a rung, its
    score is compared with the cutoff of the earlier scores, if there are two or more. At each
    later report, the trial's score at every rung that it has passed is compared again with the
    rung's current cutoff. A paused trial keeps its checkpoint and is resumed once it is at or
    above every cutoff again.

    Departures: rungs are computed with integers, so that no rung is lost to rounding.

    Example:
        >>> AshaSpeculative(max_steps=64).rungs
        (1, 4, 16, 64)

    Attributes:
        min_steps: Steps to the first rung (r).
        max_steps: Steps of a full-length trial (R).
        eta: Reduction factor: about one trial in eta continues from each rung (η).
    """

    pauses: ClassVar[bool] = True
    copies: ClassVar[bool] = False
    forecast_every: ClassVar[int | None] = None

    min_steps: int = 1
    max_steps: int
    eta: int = 4

    def __post_init__(self) -> None:
        check_at_least("min_steps", self.min_steps, 1)
        check_at_least("max_steps", self.max_steps, self.min_steps)
        check_at_least("eta", self.eta, 2)

    @cached_property
    def rungs(self) -> tuple[int, ...]:
        """Steps at which trials are compared; the last rung ends a full-length trial."""
        return rung_steps(self.min_steps, self.max_steps, self.eta)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if free <= 0:
            return TrialGroup((), "no slot is free")
        cutoffs = self._cutoffs(study)
        members = resume_interrupted(study, cutoffs.interrupted(), free, self.until_step)
        for trial in cutoffs.waiting():
            if len(members) == free:
                break
            reason = f"trial {trial.number} is at or above the cutoff of every rung again"
            members.append(resume(trial, self.until_step(study, trial.step), reason))
        group = add_new(study, members, free, self.until_step(study, 0))
        if not group.members and study.in_state(TrialState.PAUSED):
            return TrialGroup((), "every paused trial is below the cutoff of a rung")
        return group

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.step >= self.max_steps:
            return Decision(CONTINUE, f"step {self.max_steps} is the last step")
        missed = study.index(self._key, self._make_cutoffs).shortfall(trial)
        if missed is None:
            return NOT_BELOW
        rung, score, cutoff, count, _ = missed
        to_value = study.goal.direction.to_value
        return Decision(
            PAUSE,
            f"value {to_value(score):g} at rung {rung} is worse than the cutoff "
            f"{to_value(cutoff):g} of {count} trials",
        )

    def until_step(self, study: Study, step: int) -> int:
        """Returns the last step of a segment (one uninterrupted run) that starts at ``step``."""
        if study.goal.at_barrier:
            return next_rung(step, self.rungs, self.max_steps)
        return self.max_steps

    def interrupted(self, study: Study) -> Sequence[Trial]:
        """Returns the trials paused between two rungs that are at or above every rung's cutoff."""
        return self._cutoffs(study).interrupted()

    def _cutoffs(self, study: Study) -> CutoffIndex:
        return study.index(self._key, self._make_cutoffs)

    @cached_property
    def _key(self) -> str:
        return f"cutoffs {self.min_steps} {self.max_steps} {self.eta}"

    def _make_cutoffs(self) -> CutoffIndex:
        return CutoffIndex(self.rungs, max_steps=self.max_steps, quantile=1 - 1 / self.eta)
