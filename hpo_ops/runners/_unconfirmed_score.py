"""The score of a trial whose gateway did not answer when its last segment ended."""

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
    """The score that a task can hand on by XCom, from what the agent of its segment knows.

    Returns:
        The score with the segment's end, which the ledger absorbs later; None where the trial is
        not finished with it, so that the task needs the gateway to go on.
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
