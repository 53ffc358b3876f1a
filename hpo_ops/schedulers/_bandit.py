"""Bandit: stops trials whose best score is far below the study's best, as in TuPAQ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hpo_ops.core import Decision, Study, Trial, TrialGroup
from hpo_ops.core.decisions import CONTINUE, STOP
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.schedulers._evaluation_boundaries import is_at_boundary, next_boundary, no_boundary
from hpo_ops.schedulers.slot_filling import fill_slots


@dataclass(frozen=True, kw_only=True)
class Bandit:
    """Stops a trial whose best score, plus some slack, is not above the study's best score.

    The bandit allocation of TuPAQ (Sparks et al., "Automating Model Search for Large Scale Machine
    Learning", SoCC 2015), as HyperDrive states it (Rasley et al., Middleware 2017): at every
    boundary b a trial continues if its best * (1 + epsilon) > the best of all trials. A stopped
    trial cannot be resumed; its checkpoints may be deleted.

    Departures: the rule needs scores that are not negative. With ``low`` and ``high``, values of
    the metric, scores are first scaled from that range to 0 to 1. Without them no trial is stopped
    while the study's best score is negative.

    Example:
        >>> Bandit(max_steps=120).epsilon
        0.5

    Attributes:
        boundary: Steps between two decisions (b).
        epsilon: Relative slack (ε).
        low: Lower end of the metric's range; None to leave scores unscaled.
        high: Upper end of the metric's range; None to leave scores unscaled.
        max_steps: Steps of a full-length trial; None if the training code decides.
    """

    pauses: ClassVar[bool] = False
    copies: ClassVar[bool] = False
    rungs: ClassVar[tuple[int, ...] | None] = None
    forecast_every: ClassVar[int | None] = None

    boundary: int = 10
    epsilon: float = 0.5
    low: float | None = None
    high: float | None = None
    max_steps: int | None = None

    def __post_init__(self) -> None:
        check_at_least("boundary", self.boundary, 1)
        check_at_least("epsilon", self.epsilon, 0)
        if (self.low is None) != (self.high is None):
            name, other = ("low", "high") if self.low is None else ("high", "low")
            raise ValueError(f"{name} is null, but must be given with {other}")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"high is {self.high}, but must be more than low, {self.low}")
        if self.max_steps is not None:
            check_at_least("max_steps", self.max_steps, 1)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if study.goal.at_barrier:
            return fill_slots(
                study, free, lambda step: next_boundary(step, self.boundary, self.max_steps)
            )
        return fill_slots(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if not is_at_boundary(trial, self.boundary):
            return no_boundary(trial.step)
        if study.best is None or study.best.best_score is None or trial.best_score is None:
            return Decision(CONTINUE, "no trial to compare with")
        if trial is study.best:
            return Decision(CONTINUE, "the best trial so far")
        best = self._normalise(study, study.best.best_score)
        own = self._normalise(study, trial.best_score)
        if best < 0:
            return Decision(CONTINUE, "the best score is negative, and low and high are not given")
        reached = own * (1 + self.epsilon)
        if reached > best:
            return Decision(
                CONTINUE, f"best score {own:g} is {reached:g} with slack, above {best:g}"
            )
        return Decision(STOP, f"best score {own:g} is {reached:g} with slack, not above {best:g}")

    def _normalise(self, study: Study, score: float) -> float:
        if self.low is None or self.high is None:
            return score
        ends = (study.goal.direction.to_score(self.low), study.goal.direction.to_score(self.high))
        return (score - min(ends)) / (max(ends) - min(ends))
