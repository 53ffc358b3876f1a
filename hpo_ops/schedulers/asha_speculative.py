"""ASHA with speculation: trials run on until the scores of others show that they should not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hpo_ops.core import Decision, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.decisions import CONTINUE, PAUSE
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.schedulers.asha_promoting import resume_interrupted
from hpo_ops.schedulers.rung_cutoffs import CutIndex
from hpo_ops.schedulers.rungs import next_rung, rung_steps
from hpo_ops.schedulers.slot_filling import add_new, resume

NOT_BELOW = Decision(CONTINUE, "not below the cut of any rung that it passed")


@dataclass(frozen=True, kw_only=True)
class AshaSpeculative:
    """Pauses a trial that is below the (1 - 1/eta) quantile of a rung, now or in retrospect.

    The bracket of HyperSched's code (Liaw et al., SoCC 2019). When a trial arrives at a rung its
    score is compared with the quantile of the scores that were there before, if there were two or
    more; at every later report each rung that it passed is checked again, with the score that it
    had there, against all scores there by now. A paused trial that passes every check again goes
    on.

    Departures: rungs are counted with integers.

    Example:
        >>> AshaSpeculative(max_steps=64).rungs
        (1, 4, 16, 64)

    Attributes:
        min_steps: Steps before the first judgement (r).
        max_steps: Steps of a whole trial (R).
        eta: One of so many goes on from each rung (η).
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
        """The steps at which trials are judged; at the last one they are whole."""
        return rung_steps(self.min_steps, self.max_steps, self.eta)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if free <= 0:
            return TrialGroup((), "no place is free")
        cuts = self._cuts(study)
        members = resume_interrupted(study, cuts.interrupted(), free, self.until_step)
        for trial in cuts.waiting():
            if len(members) == free:
                break
            reason = f"trial {trial.number} is above every cut again"
            members.append(resume(trial, self.until_step(study, trial.step), reason))
        group = add_new(study, members, free, self.until_step(study, 0))
        if not group.members and study.in_state(TrialState.PAUSED):
            return TrialGroup((), "no paused trial is above every cut")
        return group

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.step >= self.max_steps:
            return Decision(CONTINUE, f"step {self.max_steps} is the last")
        missed = study.index(self._key, self._make_cuts).shortfall(trial)
        if missed is None:
            return NOT_BELOW
        rung, score, cut, among, _ = missed
        return Decision(PAUSE, f"{score:g} at step {rung} is below the cut {cut:g} of {among}")

    def until_step(self, study: Study, step: int) -> int:
        """The last step of a segment that starts from a step."""
        if study.goal.at_barrier:
            return next_rung(step, self.rungs, self.max_steps)
        return self.max_steps

    def interrupted(self, study: Study) -> Sequence[Trial]:
        """Trials between two rungs that lost their place, rather than were paused there."""
        return self._cuts(study).interrupted()

    def _cuts(self, study: Study) -> CutIndex:
        return study.index(self._key, self._make_cuts)

    @cached_property
    def _key(self) -> str:
        return f"cuts {self.min_steps} {self.max_steps} {self.eta}"

    def _make_cuts(self) -> CutIndex:
        return CutIndex(self.rungs, max_steps=self.max_steps, quantile=1 - 1 / self.eta)
