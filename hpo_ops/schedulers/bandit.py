"""Bandit: TuPAQ's action elimination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hpo_ops.core import Decision, Study, Trial, TrialGroup
from hpo_ops.core.decisions import CONTINUE, STOP
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.schedulers.evaluation_boundaries import is_at_boundary, next_boundary, no_boundary
from hpo_ops.schedulers.slot_filling import fill_places


@dataclass(frozen=True, kw_only=True)
class Bandit:
    """Stops a trial whose best, with some slack, does not come up to the best of all.

    The bandit allocation of TuPAQ (Sparks et al., "Automating Model Search for Large Scale Machine
    Learning", SoCC 2015), as HyperDrive states it (Rasley et al., Middleware 2017): at every
    boundary b a trial goes on if best of the trial * (1 + epsilon) > best of all.

    Departures: the rule needs scores that are not negative. With ``low`` and ``high``, values of
    the metric, scores are normalised to (score - least) / (greatest - least) first; without them
    nothing is stopped while the best score is negative.

    Example:
        >>> Bandit(max_steps=120).epsilon
        0.5

    Attributes:
        boundary: Steps between two judgements (b).
        epsilon: Slack (ε).
        low: One end of the metric's range.
        high: The other end.
        max_steps: Steps of a whole trial; None where the training code decides.
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
            return fill_places(
                study, free, lambda step: next_boundary(step, self.boundary, self.max_steps)
            )
        return fill_places(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if not is_at_boundary(trial, self.boundary):
            return no_boundary(trial.step)
        if study.best is None or study.best.best_score is None or trial.best_score is None:
            return Decision(CONTINUE, "nothing to compare with")
        if trial is study.best:
            return Decision(CONTINUE, "the best of all")
        best = self._normalise(study, study.best.best_score)
        own = self._normalise(study, trial.best_score)
        if best < 0:
            return Decision(CONTINUE, "scores are negative, and low and high not given")
        reached = own * (1 + self.epsilon)
        if reached > best:
            return Decision(CONTINUE, f"best {own:g} with slack is {reached:g}, above {best:g}")
        return Decision(STOP, f"best {own:g} with slack is {reached:g}, not above {best:g}")

    def _normalise(self, study: Study, score: float) -> float:
        if self.low is None or self.high is None:
            return score
        ends = (study.goal.direction.to_score(self.low), study.goal.direction.to_score(self.high))
        return (score - min(ends)) / (max(ends) - min(ends))
