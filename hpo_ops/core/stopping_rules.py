"""When a study ends before its trials are used up."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.core.study_view import Study
from hpo_ops.core.trial_state import TrialState

MIN_FINISHED_FOR_FAILURES = 5
"""Finished trials before the share of failures says anything."""


@dataclass(frozen=True, kw_only=True)
class StoppingRule:
    """What ends a study early, besides its target and its deadline.

    Attributes:
        patience: Trials in a row without a better value; None is for ever.
        failures: Largest share of failed trials.
    """

    patience: int | None = None
    failures: float = 1.0

    def reason_to_stop(self, study: Study, now: float) -> str | None:
        """Why the study should end now, or None."""
        return (
            reached_target(study)
            or passed_deadline(study, now)
            or self._lost_patience(study)
            or self._too_many_failures(study)
        )

    def _lost_patience(self, study: Study) -> str | None:
        if self.patience is None or study.stale < self.patience:
            return None
        return f"no better value in the last {study.stale} trials (patience {self.patience})"

    def _too_many_failures(self, study: Study) -> str | None:
        failed = len(study.in_state(TrialState.FAILED))
        finished = study.finished
        if finished < MIN_FINISHED_FOR_FAILURES or failed <= self.failures * finished:
            return None
        return f"{failed} of {finished} trials failed (at most {self.failures:.0%} may)"


def reached_target(study: Study) -> str | None:
    """Says so where a trial has reached the study's target."""
    target = study.goal.target_score
    if target is None or study.best is None or study.best.best_score is None:
        return None
    if study.best.best_score < target:
        return None
    value = study.goal.direction.to_value(study.best.best_score)
    return f"target {study.goal.target:g} reached: trial {study.best.number} has {value:g}"


def passed_deadline(study: Study, now: float) -> str | None:
    """Says so where the study's time is over."""
    deadline = study.goal.deadline_seconds
    if deadline is None or now < deadline:
        return None
    return f"the time of {deadline:g} s is over"
