"""Promoting ASHA: trials pause at each rung until they are among the best of that rung."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from itertools import chain
from typing import ClassVar

from hpo_ops.core import Decision, Member, Ranking, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.decisions import CONTINUE, PAUSE
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.core.trial_state import WAITING
from hpo_ops.schedulers.rungs import (
    RungIndex,
    crossed_rungs,
    next_rung,
    no_rung,
    rank_reason,
    rung_index,
    rung_steps,
)
from hpo_ops.schedulers.slot_filling import add_new, by_priority, resume

UntilStep = Callable[[Study, int], int]


@dataclass(frozen=True, kw_only=True)
class AshaPromoting:
    """Pauses a trial at a rung until it is among the best 1/eta of the trials at that rung.

    Asynchronous successive halving, Li et al., "A System for Massively Parallel Hyperparameter
    Tuning", MLSys 2020 (https://arxiv.org/abs/1810.05934), algorithm 2: a free slot goes to a
    paused trial that can be promoted, from the top rung down, else to a new trial. As in
    HyperSched's code, a trial that is among the best when it reaches a rung continues at once.
    A paused trial keeps its checkpoint and holds no resources.

    Departures: when all trials have been started, none runs and none has completed, the best
    paused trial is resumed, so that every study ends with a full-length trial. Trials that were
    interrupted between two rungs are resumed first.

    Example:
        >>> AshaPromoting(max_steps=27).rungs
        (1, 3, 9, 27)

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
    eta: int = 3

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
        index = rung_index(study, self.rungs)
        members = resume_interrupted(study, index.interrupted.values(), free, self.until_step)
        for rung, trial in self._promotable(index):
            if len(members) == free:
                break
            reason = f"trial {trial.number} is promoted from rung {rung}"
            members.append(resume(trial, self.until_step(study, trial.step), reason))
        group = add_new(study, members, free, self.until_step(study, 0))
        return group if group.members else self._last_resort(study, index, group)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        rungs, step = self.rungs, trial.step
        if step >= self.max_steps:
            return Decision(CONTINUE, f"step {self.max_steps} is the last step")
        crossed = crossed_rungs(trial, rungs)
        if not crossed:
            return no_rung(step)
        rung, score = crossed[-1], trial.observations[-1].score
        ranking = rung_index(study, rungs).brackets[0].scores[rung]
        rank, count = ranking.better_than(score) + 1, len(ranking)
        best = count // self.eta
        reason = rank_reason(rank, count, rung=rung, best=best)
        return Decision(CONTINUE if rank <= best else PAUSE, reason)

    def until_step(self, study: Study, step: int) -> int:
        """Returns the last step of a segment (one uninterrupted run) that starts at ``step``."""
        if study.goal.at_barrier:
            return next_rung(step, self.rungs, self.max_steps)
        return self.max_steps

    def _promotable(self, index: RungIndex[Ranking]) -> Iterator[tuple[int, Trial]]:
        bracket = index.brackets[0]
        for rung, queue in bracket.queues.items():
            ranking = bracket.scores[rung]
            top = len(ranking) // self.eta
            if not ranking.is_among_best(queue.top, top):
                continue  # the usual case
            for score, trial in queue:
                if not ranking.is_among_best(score, top):
                    break
                yield rung, trial

    def _last_resort(
        self, study: Study, index: RungIndex[Ranking], group: TrialGroup
    ) -> TrialGroup:
        if study.in_state(TrialState.RUNNING) or study.in_state(TrialState.COMPLETED):
            if study.in_state(TrialState.PAUSED):
                return TrialGroup((), "no paused trial is among the best at its rung")
            return group
        for queue in index.brackets[0].queues.values():
            for _, trial in queue:
                reason = f"trial {trial.number} is the best paused trial, and none has completed"
                member = resume(trial, self.until_step(study, trial.step), reason)
                return TrialGroup((member,), "all trials have been started and none has completed")
        return group


def resume_interrupted(
    study: Study, interrupted: Collection[Trial], free: int, until_step: UntilStep
) -> list[Member]:
    """Returns group members that resume interrupted trials and start waiting trials.

    Trials with the highest priority come first.

    Args:
        study: The study.
        interrupted: Paused trials that were interrupted between two rungs.
        free: Number of free slots: the largest number of returned members.
        until_step: Maps the study and a trial's last step to the last step of its next segment.
    """
    waiting = study.in_state(WAITING)
    if not interrupted and not waiting:
        return []
    first = nsmallest(free, chain(interrupted, waiting.values()), key=by_priority)
    return [resume(trial, until_step(study, trial.step)) for trial in first]
