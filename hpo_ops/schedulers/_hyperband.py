"""Hyperband: several brackets of successive halving, each with another first rung."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, count
from typing import ClassVar

from hpo_ops.core import Decision, Ranking, Study, Trial, TrialGroup
from hpo_ops.core.decisions import CONTINUE, STOP
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.schedulers.rungs import (
    RungIndex,
    crossed_rungs,
    next_rung,
    no_rung,
    rank_reason,
    rung_steps,
)
from hpo_ops.schedulers.slot_filling import add_new, resume, waiting_trials


@cache
def bracket_sizes(min_steps: int, max_steps: int, eta: int) -> tuple[int, ...]:
    """Returns the number of trials of each bracket, starting with the bracket of the most rungs.

    With S + 1 brackets, bracket s has ceil((S + 1) * eta**s / (s + 1)) trials.

    >>> bracket_sizes(1, 81, 3)
    (81, 34, 15, 8, 5)
    """
    most = len(rung_steps(min_steps, max_steps, eta)) - 1
    return tuple(-(-(most + 1) * eta**s // (s + 1)) for s in range(most, -1, -1))


@dataclass(frozen=True, kw_only=True)
class Hyperband:
    """Runs brackets of successive halving: the later the first rung, the fewer the trials.

    Li et al., "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization", JMLR
    2018 (https://arxiv.org/abs/1603.06560).

    Departures: inside a bracket trials are compared as they reach a rung, as in ASHA and in
    Optuna's Hyperband, so that no trial waits for others. A trial's bracket follows from its
    number: trials fill the brackets in the order and sizes of the paper, in repeated cycles. A
    stopped trial cannot be resumed; its checkpoints may be deleted.

    Example:
        >>> Hyperband(max_steps=27).brackets
        ((1, 3, 9, 27), (3, 9, 27), (9, 27), (27,))

    Attributes:
        min_steps: Steps to the first rung of the first bracket.
        max_steps: Steps of a full-length trial (R).
        eta: Reduction factor: about one trial in eta continues from each rung (η).
    """

    pauses: ClassVar[bool] = False
    copies: ClassVar[bool] = False
    rungs: ClassVar[tuple[int, ...] | None] = None
    forecast_every: ClassVar[int | None] = None

    min_steps: int = 1
    max_steps: int
    eta: int = 3

    def __post_init__(self) -> None:
        check_at_least("min_steps", self.min_steps, 1)
        check_at_least("max_steps", self.max_steps, self.min_steps)
        check_at_least("eta", self.eta, 2)

    @cached_property
    def brackets(self) -> tuple[tuple[int, ...], ...]:
        """The rungs of each bracket, starting with the bracket of the most rungs."""
        rungs = rung_steps(self.min_steps, self.max_steps, self.eta)
        return tuple(rungs[first:] for first in range(len(rungs)))

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        """For each bracket of the first cycle, the number of the first trial after the bracket."""
        return tuple(accumulate(bracket_sizes(self.min_steps, self.max_steps, self.eta)))

    def bracket_of(self, number: int) -> int:
        """Returns which bracket a trial belongs to, as an index into ``brackets``."""
        ends = self._ends
        return bisect_right(ends, number % ends[-1])

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if free <= 0:
            return TrialGroup((), "no slot is free")
        members = [
            resume(trial, self._until_step(study, trial.number, trial.step))
            for trial in waiting_trials(study, free)
        ]
        group = add_new(study, members, free, self.max_steps)
        if not study.goal.at_barrier:
            return group
        numbers = count(len(study.trials))
        return replace(
            group,
            members=tuple(
                member
                if member.trial is not None
                else replace(member, until_step=self._until_step(study, next(numbers), 0))
                for member in group.members
            ),
        )

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        step = trial.step
        if step >= self.max_steps:
            return Decision(CONTINUE, f"step {self.max_steps} is the last step")
        bracket = self.bracket_of(trial.number)
        decision = no_rung(step)
        for rung in crossed_rungs(trial, self.brackets[bracket]):
            decision = self._judge(study, trial, bracket, rung)
            if decision.action is STOP:
                break
        return decision

    def _judge(self, study: Study, trial: Trial, bracket: int, rung: int) -> Decision:
        index = study.index(
            ("hyperband", self), lambda: RungIndex(self.brackets, self.bracket_of, Ranking)
        )
        ranking = index.brackets[bracket].scores[rung]
        count = len(ranking)
        where = f"{rung} of bracket {bracket}"
        if count < 3:
            return Decision(CONTINUE, f"fewer than two other trials have reached rung {where}")
        rank = ranking.better_than(trial.observations[-1].score) + 1
        best = count // self.eta or 1
        reason = rank_reason(rank, count, rung=where, best=best)
        return Decision(CONTINUE if rank <= best else STOP, reason)

    def _until_step(self, study: Study, number: int, step: int) -> int:
        if study.goal.at_barrier:
            return next_rung(step, self.brackets[self.bracket_of(number)], self.max_steps)
        return self.max_steps
