"""ASHA with speculation: trials run on until the scores of others show that they should not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hpo_ops.core import Action, Decision, Study, Trial, TrialGroup
from hpo_ops.core.options import check_at_least
from hpo_ops.schedulers.asha_promoting import interrupted_members
from hpo_ops.schedulers.places import add_new, resume
from hpo_ops.schedulers.rungs import crossed_rungs, next_rung, rung_index, rung_steps


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
        members = interrupted_members(
            study, self.rungs, free, self.until_step, self.is_above_every_cut
        )
        for number in self._resumable(study):
            if len(members) == free:
                break
            trial = study.trials[number]
            reason = f"trial {number} is above every cut again"
            members.append(resume(trial, self.until_step(study, trial.step), reason))
        return add_new(study, members, free, self.until_step(study, 0))

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.step >= self.max_steps:
            return Decision(Action.CONTINUE, f"step {self.max_steps} is the last")
        shortfall = self._shortfall(study, trial)
        if shortfall is not None:
            return Decision(Action.PAUSE, shortfall)
        return Decision(Action.CONTINUE, "not below the cut of any rung that it passed")

    def until_step(self, study: Study, step: int) -> int:
        """The last step of a segment that starts from a step."""
        if study.goal.at_barrier:
            return next_rung(step, self.rungs, self.max_steps)
        return self.max_steps

    def is_above_every_cut(self, study: Study, trial: Trial) -> bool:
        """Whether the trial is not below the cut of any rung that it passed."""
        return self._shortfall(study, trial) is None

    def _resumable(self, study: Study) -> Iterator[int]:
        index = rung_index(study, self.rungs)
        for rung in reversed(self.rungs):
            for _, number in index.paused_at(rung):
                if self._shortfall(study, study.trials[number]) is not None:
                    break
                yield number

    def _shortfall(self, study: Study, trial: Trial) -> str | None:
        """Which cut the trial is below, or None."""
        index = rung_index(study, self.rungs)
        arriving = crossed_rungs(trial, self.rungs)
        step = trial.step
        for rung in self.rungs:
            if rung > step or rung >= self.max_steps:
                return None
            score = trial.score_at(rung)
            if score is None:
                return None
            ranking = index.ranking(rung)
            own = score if rung in arriving else None
            if len(ranking) - (own is not None) < 2:
                continue
            cut = ranking.quantile(1 - 1 / self.eta, without=own)
            if score < cut:
                return f"{score:g} at step {rung} is below the cut {cut:g} of {len(ranking)}"
        return None
