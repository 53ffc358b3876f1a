"""Patient: stops a trial that has not improved for a number of reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from hpo_ops.core import Action, Decision, Scheduler, Study, Trial, TrialGroup
from hpo_ops.core.policy_options import check_at_least, create_policy
from hpo_ops.schedulers._median import Median
from hpo_ops.schedulers._percentile import Percentile
from hpo_ops.schedulers._threshold import Threshold
from hpo_ops.schedulers.slot_filling import fill_slots

WRAPPED: Mapping[str, type[Scheduler]] = {
    "median": Median,
    "percentile": Percentile,
    "threshold": Threshold,
}


@dataclass(frozen=True, kw_only=True)
class Patient:
    """Stops a trial whose last ``patience + 1`` scores are all worse than an earlier score.

    Optuna's patient pruner (https://optuna.readthedocs.io). If ``wrapped`` is set, another rule
    decides whether a trial without improvement is stopped. A stopped trial cannot be resumed; its
    checkpoints may be deleted.

    Departures: none. The option ``max_steps`` is added, which limits the steps of a trial.

    Example:
        >>> Patient(patience=3, wrapped={"name": "median"}).min_delta
        0.0

    Attributes:
        patience: Number of reports without improvement that a trial may make.
        min_delta: Tolerance: a score that is at most this much below the best score counts as an
            improvement.
        wrapped: Name (median, percentile or threshold) and options of the rule that decides once
            patience is lost; None stops the trial at once.
        max_steps: Steps of a full-length trial; None if the training code decides.
    """

    pauses: ClassVar[bool] = False
    copies: ClassVar[bool] = False
    rungs: ClassVar[tuple[int, ...] | None] = None
    forecast_every: ClassVar[int | None] = None

    patience: int
    min_delta: float = 0.0
    wrapped: Mapping[str, object] | None = field(default=None, hash=False)
    max_steps: int | None = None

    def __post_init__(self) -> None:
        check_at_least("patience", self.patience, 0)
        check_at_least("min_delta", self.min_delta, 0)
        if self.max_steps is not None:
            check_at_least("max_steps", self.max_steps, 1)
        self._rule()

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        return fill_slots(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        seen = trial.observations
        if len(seen) <= self.patience + 1:
            return self._too_early
        if not self._has_lost_patience(trial):
            return self._improved
        rule = self._rule()
        if rule is not None:
            return rule.on_report(study, trial, now)
        return Decision(
            Action.STOP,
            f"the last {self.patience + 1} reports are worse than the best before them",
        )

    def _has_lost_patience(self, trial: Trial) -> bool:
        """Checks whether the last ``patience + 1`` scores are all worse than an earlier score."""
        last = trial.observations[-self.patience - 1 :]
        if trial.best_score is None or trial.best_step is None or trial.best_step >= last[0].step:
            return False
        return trial.best_score - self.min_delta > max(item.score for item in last)

    @cached_property
    def _too_early(self) -> Decision:
        return Decision(Action.CONTINUE, f"fewer than {self.patience + 2} reports")

    @cached_property
    def _improved(self) -> Decision:
        return Decision(Action.CONTINUE, f"improved in the last {self.patience + 1} reports")

    def _rule(self) -> Scheduler | None:
        if self.wrapped is None:
            return None
        options = {key: value for key, value in self.wrapped.items() if key != "name"}
        name = str(self.wrapped.get("name", ""))
        if name not in WRAPPED:
            raise ValueError(f"wrapped.name is {name!r}, but must be one of {', '.join(WRAPPED)}")
        rule: Scheduler = create_policy("wrapped", WRAPPED, name, options)
        return rule
