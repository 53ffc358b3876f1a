"""ASHA: asynchronous successive halving, in its stopping form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hpo_ops.core import Decision, Study, Trial, TrialGroup
from hpo_ops.core.decisions import CONTINUE, STOP
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.schedulers.rungs import crossed_rungs, next_rung, no_rung, rank_reason, rung_steps
from hpo_ops.schedulers.slot_filling import fill_slots


@dataclass(frozen=True, kw_only=True)
class Asha:
    """Stops a trial at a rung unless it is among the best 1/eta of the trials at that rung.

    Asynchronous successive halving, Li et al., "A System for Massively Parallel Hyperparameter
    Tuning", MLSys 2020 (https://arxiv.org/abs/1810.05934), in the stopping form of the HyperSched
    slides. A trial is compared once per rung, when one of its reports first reaches or passes the
    rung, with the scores of all trials that have reached the rung by then. A stopped trial cannot
    be resumed; its checkpoints may be deleted.

    Departures: a trial continues if fewer than two other trials have reached the rung, on which
    the paper is silent. Of n trials at a rung the best max(1, floor(n / eta)) continue, so that
    the best trial of all is never stopped.

    Example:
        >>> Asha(min_steps=1, max_steps=81, eta=3).rungs
        (1, 3, 9, 27, 81)

    Attributes:
        min_steps: Steps to the first rung (r).
        max_steps: Steps of a full-length trial (R).
        eta: Reduction factor: about one trial in eta continues from each rung (η).
    """

    pauses: ClassVar[bool] = False
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
        if study.goal.at_barrier:
            return fill_slots(
                study, free, lambda step: next_rung(step, self.rungs, self.max_steps)
            )
        return fill_slots(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        step = trial.step
        if step >= self.max_steps:
            return Decision(CONTINUE, f"step {self.max_steps} is the last step")
        decision = no_rung(step)
        for rung in crossed_rungs(trial, self.rungs):
            decision = self._judge(study, trial, rung)
            if decision.action is STOP:
                break
        return decision

    def _judge(self, study: Study, trial: Trial, rung: int) -> Decision:
        ranking = study.ranking_at(rung)
        score, count = trial.score_at(rung), len(ranking)
        if score is None or count < 3:
            return Decision(CONTINUE, f"fewer than two other trials have reached rung {rung}")
        rank = ranking.better_than(score) + 1
        best = count // self.eta or 1
        return Decision(
            CONTINUE if rank <= best else STOP,
            rank_reason(rank, count, rung=rung, best=best),
        )
