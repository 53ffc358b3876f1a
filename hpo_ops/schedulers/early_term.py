"""EarlyTerm: stops a trial that will probably not beat the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hpo_ops.core import Action, Decision, Study, Trial, TrialGroup
from hpo_ops.core.policy_options import check_at_least, check_between
from hpo_ops.schedulers.evaluation_boundaries import is_at_boundary, next_boundary, no_boundary
from hpo_ops.schedulers.slot_filling import fill_places


@dataclass(frozen=True, kw_only=True)
class EarlyTerm:
    """Stops a trial whose predicted chance to reach the best of all by its end is too small.

    The predictive termination criterion of Domhan et al., "Speeding Up Automatic Hyperparameter
    Optimization of Deep Neural Networks by Extrapolation of Learning Curves", IJCAI 2015, run in
    parallel as in HyperDrive (Rasley et al., Middleware 2017): at every boundary b, stop if
    P(y(m) >= best of all) < delta, m the last step.

    Departures: none. As in the paper the best of all is meant, not the study's target. Without a
    forecast nothing is decided.

    Example:
        >>> EarlyTerm(max_steps=120).forecast_every
        30

    Attributes:
        boundary: Steps between two judgements (b).
        min_probability: Chance below which a trial is stopped (δ).
        max_steps: Steps of a whole trial (m).
    """

    pauses: ClassVar[bool] = False
    copies: ClassVar[bool] = False
    rungs: ClassVar[tuple[int, ...] | None] = None

    boundary: int = 30
    min_probability: float = 0.05
    max_steps: int

    def __post_init__(self) -> None:
        check_at_least("boundary", self.boundary, 1)
        check_between("min_probability", self.min_probability, 0, 1)
        check_at_least("max_steps", self.max_steps, 1)

    @property
    def forecast_every(self) -> int:
        """Steps between two forecasts."""
        return self.boundary

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if study.goal.at_barrier:
            return fill_places(
                study, free, lambda step: next_boundary(step, self.boundary, self.max_steps)
            )
        return fill_places(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.step >= self.max_steps or not is_at_boundary(trial, self.boundary):
            return no_boundary(trial.step)
        if trial.forecast is None or study.best is None or study.best.best_score is None:
            return Decision(Action.CONTINUE, "no forecast, so no decision")
        best = study.best.best_score
        chance = trial.forecast.probability(best, by_step=self.max_steps)
        text = f"chance {chance:.3f} to reach the best, {best:g}, by step {self.max_steps}"
        if chance < self.min_probability:
            return Decision(Action.STOP, f"{text}, below {self.min_probability:g}")
        return Decision(Action.CONTINUE, text)
