"""Rules that end a study before all of its trials have run."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.core._study_view import Study
from hpo_ops.core.trial_state import TrialState

MIN_FINISHED_FOR_FAILURES = 5
"""Smallest number of finished trials at which the share of failed trials is checked."""


@dataclass(frozen=True, kw_only=True)
class StoppingRule:
    """Ends a study early: at its target or deadline, without improvement, or with many failures.

    Attributes:
        patience: The study ends once this many trials in a row have finished without a better
            value; None for no limit.
        failures: The study ends once a larger share (0 to 1) of its finished trials has failed.
    """

    patience: int | None = None
    failures: float = 1.0

    def reason_to_stop(self, study: Study, now: float) -> str | None:
        """Returns why the study should end now, or None if the study should continue."""
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
    """Returns a sentence naming the trial that has reached the target, or None if none has."""
    target = study.goal.target_score
    if target is None or study.best is None or study.best.best_score is None:
        return None
    if study.best.best_score < target:
        return None
    value = study.goal.direction.to_value(study.best.best_score)
    return f"target {study.goal.target:g} reached: trial {study.best.number} has {value:g}"


def passed_deadline(study: Study, now: float) -> str | None:
    """Returns a sentence stating that the deadline has passed, or None if it has not."""
    deadline = study.goal.deadline_seconds
    if deadline is None or now < deadline:
        return None
    return f"the deadline of {deadline:g} s has passed"
