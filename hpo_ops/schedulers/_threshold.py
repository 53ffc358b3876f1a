"""Threshold: stops a trial whose value is outside of a given range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from hpo_ops.core import Decision, Study, Trial, TrialGroup
from hpo_ops.core.decisions import CONTINUE, STOP
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.schedulers._percentile import is_first_in_interval
from hpo_ops.schedulers.slot_filling import fill_slots


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """Stops a trial whose last value is outside of given bounds, or not a number.

    Optuna's threshold pruner (https://optuna.readthedocs.io). The bounds are values of the
    metric, not scores. A stopped trial cannot be resumed; its checkpoints may be deleted.

    Departures: none. The option ``max_steps`` is added, which limits the steps of a trial.

    Example:
        >>> Threshold(lower=0.15, n_warmup_steps=10).upper

    Attributes:
        lower: Lowest value with which a trial continues; None for no lower bound.
        upper: Highest value with which a trial continues; None for no upper bound.
        n_warmup_steps: Steps that every trial may train before it is checked.
        interval_steps: Steps between two checks.
        max_steps: Steps of a full-length trial; None if the training code decides.
    """

    pauses: ClassVar[bool] = False
    copies: ClassVar[bool] = False
    rungs: ClassVar[tuple[int, ...] | None] = None
    forecast_every: ClassVar[int | None] = None

    lower: float | None = None
    upper: float | None = None
    n_warmup_steps: int = 0
    interval_steps: int = 1
    max_steps: int | None = None

    def __post_init__(self) -> None:
        if self.lower is None and self.upper is None:
            raise ValueError("lower is null, but must be a number where upper is null too")
        if self.lower is not None and self.upper is not None:
            check_at_least("upper", self.upper, self.lower)
        check_at_least("n_warmup_steps", self.n_warmup_steps, 0)
        check_at_least("interval_steps", self.interval_steps, 1)
        if self.max_steps is not None:
            check_at_least("max_steps", self.max_steps, 1)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        return fill_slots(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if not is_first_in_interval(trial, self.n_warmup_steps, self.interval_steps):
            return Decision(CONTINUE, f"trials are not checked at step {trial.step}")
        score = trial.observations[-1].score
        value = study.goal.direction.to_value(score)
        if score == -math.inf:
            return Decision(STOP, f"the value at step {trial.step} is not a number")
        if self.lower is not None and value < self.lower:
            return Decision(STOP, f"value {value:g} is below the lower bound {self.lower:g}")
        if self.upper is not None and value > self.upper:
            return Decision(STOP, f"value {value:g} is above the upper bound {self.upper:g}")
        return Decision(CONTINUE, f"value {value:g} is within the bounds")
