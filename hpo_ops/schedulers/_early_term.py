"""EarlyTerm: stops a trial that will probably not reach the best score so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hpo_ops.core import Action, Decision, Study, Trial, TrialGroup
from hpo_ops.core.policy_options import check_at_least, check_between
from hpo_ops.schedulers._evaluation_boundaries import is_at_boundary, next_boundary, no_boundary
from hpo_ops.schedulers.slot_filling import fill_slots


@dataclass(frozen=True, kw_only=True)
class EarlyTerm:
    """Stops a trial whose forecast makes it unlikely to reach the best score by its last step.

    The predictive termination criterion of Domhan et al., "Speeding Up Automatic Hyperparameter
    Optimization of Deep Neural Networks by Extrapolation of Learning Curves", IJCAI 2015, run in
    parallel as in HyperDrive (Rasley et al., Middleware 2017): at every boundary b a trial is
    stopped if P(y(m) >= best of all) < delta, where m is the last step. A stopped trial cannot be
    resumed; its checkpoints may be deleted.

    Departures: none. As in the paper the score to reach is the best so far, not the study's
    target. A trial without a forecast continues.

    Example:
        >>> EarlyTerm(max_steps=120).forecast_every
        30

    Attributes:
        boundary: Steps between two decisions (b).
        min_probability: Probability below which a trial is stopped (δ).
        max_steps: Steps of a full-length trial (m).
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
        """Steps between two forecasts: one at each boundary."""
        return self.boundary

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if study.goal.at_barrier:
            return fill_slots(
                study, free, lambda step: next_boundary(step, self.boundary, self.max_steps)
            )
        return fill_slots(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.step >= self.max_steps or not is_at_boundary(trial, self.boundary):
            return no_boundary(trial.step)
        if trial.forecast is None or study.best is None or study.best.best_score is None:
            return Decision(Action.CONTINUE, "no forecast of its learning curve, so it continues")
        best = study.best.best_score
        probability = trial.forecast.probability(best, by_step=self.max_steps)
        value = study.goal.direction.to_value(best)
        text = (
            f"probability {probability:.3f} to reach the best value, {value:g}, "
            f"by step {self.max_steps}"
        )
        if probability < self.min_probability:
            return Decision(Action.STOP, f"{text} is below {self.min_probability:g}")
        return Decision(Action.CONTINUE, f"{text} is at least {self.min_probability:g}")
