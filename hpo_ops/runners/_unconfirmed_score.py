"""Computes a trial's score in its Airflow task if the gateway does not answer at the trial's end.

A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

import math

from hpo_ops.client import TrialResult, UnconfirmedEnd
from hpo_ops.config import StudyConfig
from hpo_ops.core.trial_transition import SegmentHistory, trial_after
from hpo_ops.protocol import Assignment, Report
from hpo_ops.runners.segment_with_agent import FinishedSegment


def unconfirmed_score(
    config: StudyConfig, assignment: Assignment, end: FinishedSegment
) -> TrialResult | None:
    """Builds the result of a trial, which its task returns through XCom, from the last segment.

    Returns:
        The trial's state and best value, together with the segment's result and undelivered
        reports, which the ledger records later; None if the trial is not finished after this
        segment, since only the gateway can assign the next segment.
    """
    is_retraining = assignment.folds is not None and assignment.fold is None
    history = SegmentHistory(
        max_steps=assignment.until_step if is_retraining else config.create_scheduler().max_steps,
        retries=config.retries,
    )
    after = trial_after(end.result, history)
    if not after.state.is_finished:
        return None
    best = _best(config, end)
    return TrialResult(
        trial=assignment.trial,
        state=after.state,
        reason=after.reason,
        step=end.result.step,
        value=None if best is None else best.metrics[config.objective.name],
        best_step=None if best is None else best.step,
        params=assignment.params,
        unconfirmed=UnconfirmedEnd(
            segment=assignment.segment, result=end.result, reports=list(end.unsent)
        ),
    )


def _best(config: StudyConfig, end: FinishedSegment) -> Report | None:
    name, direction = config.objective.name, config.objective.direction
    reports = [item for item in end.reports if math.isfinite(item.metrics.get(name, math.nan))]
    return max(reports, key=lambda item: direction.to_score(item.metrics[name]), default=None)
