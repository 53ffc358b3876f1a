"""ASHA: asynchronous successive halving, in its stopping form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hpo_ops.core import Decision, Study, Trial, TrialGroup
from hpo_ops.core.decisions import CONTINUE, STOP
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.schedulers.rungs import crossed_rungs, next_rung, no_rung, rung_steps
from hpo_ops.schedulers.slot_filling import fill_places


@dataclass(frozen=True, kw_only=True)
class Asha:
    """Stops a trial at a rung unless it is among the best 1/eta of those that came that far.

    Asynchronous successive halving, Li et al., "A System for Massively Parallel Hyperparameter
    Tuning", MLSys 2020 (https://arxiv.org/abs/1810.05934), in the stopping form of the HyperSched
    slides: a trial is judged once, when a report first reaches or passes a rung, against the
    scores that others had there.

    Departures: with fewer than two earlier results at a rung a trial goes on (the paper is
    silent), and the best of all always does: the top is max(1, floor(n / eta)) of n.

    Example:
        >>> Asha(min_steps=1, max_steps=81, eta=3).rungs
        (1, 3, 9, 27, 81)

    Attributes:
        min_steps: Steps before the first judgement (r).
        max_steps: Steps of a whole trial (R).
        eta: One of so many goes on from each rung (η).
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
        """The steps at which trials are judged; at the last one they are whole."""
        return rung_steps(self.min_steps, self.max_steps, self.eta)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if study.goal.at_barrier:
            return fill_places(
                study, free, lambda step: next_rung(step, self.rungs, self.max_steps)
            )
        return fill_places(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        step = trial.step
        if step >= self.max_steps:
            return Decision(CONTINUE, f"step {self.max_steps} is the last")
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
            return Decision(CONTINUE, f"fewer than two earlier results at step {rung}")
        rank = ranking.better_than(score) + 1
        top = count // self.eta or 1
        return Decision(
            CONTINUE if rank <= top else STOP,
            f"rank {rank} of {count} at step {rung}, top {top} go on",
        )
