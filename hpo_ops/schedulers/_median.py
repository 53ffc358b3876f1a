"""Median: stops a trial whose best score is below the median of completed trials."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hpo_ops.core import Decision, Study, Trial, TrialGroup
from hpo_ops.schedulers._percentile import Percentile


@dataclass(frozen=True, kw_only=True)
class Median:
    """Stops a trial whose best score is below the median of completed trials at the same step.

    The median stopping rule of Golovin et al., "Google Vizier", KDD 2017
    (https://doi.org/10.1145/3097983.3098043), as Optuna's median pruner defines it. A stopped
    trial cannot be resumed; its checkpoints may be deleted.

    Departures: Vizier compares with the running averages of other trials; Optuna and this class
    compare with the scores of other trials at the same step.

    Example:
        >>> Median(n_startup_trials=3, max_steps=20).interval_steps
        1

    Attributes:
        n_startup_trials: Number of trials that must complete before any trial is stopped.
        n_warmup_steps: Steps that every trial may train before it is compared.
        interval_steps: Steps between two comparisons.
        n_min_trials: Number of completed trials that must have reported at the step.
        max_steps: Steps of a full-length trial; None if the training code decides.
    """

    pauses: ClassVar[bool] = False
    copies: ClassVar[bool] = False
    rungs: ClassVar[tuple[int, ...] | None] = None
    forecast_every: ClassVar[int | None] = None

    n_startup_trials: int = 5
    n_warmup_steps: int = 0
    interval_steps: int = 1
    n_min_trials: int = 1
    max_steps: int | None = None

    def __post_init__(self) -> None:
        _ = self._percentile  # checks the options

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        return self._percentile.next(study, free, now)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        return self._percentile.on_report(study, trial, now)

    @cached_property
    def _percentile(self) -> Percentile:
        return Percentile(
            percentile=50.0,
            n_startup_trials=self.n_startup_trials,
            n_warmup_steps=self.n_warmup_steps,
            interval_steps=self.interval_steps,
            n_min_trials=self.n_min_trials,
            max_steps=self.max_steps,
        )
