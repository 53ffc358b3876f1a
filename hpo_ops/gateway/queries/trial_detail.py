"""Details of one trial: its summary, its seed, and its segments with their provenance."""

from __future__ import annotations

from hpo_ops.client import SegmentDetail, TrialDetail
from hpo_ops.gateway.queries._folded_study import fold_numbers
from hpo_ops.gateway.queries._trial_summaries import aggregate_folds, summarise_trial
from hpo_ops.ledger import Ledger, StudyRecord
from hpo_ops.ledger.learning_curves import read_curves
from hpo_ops.ledger.study_recording import SegmentHistory, list_segments_of_trials
from hpo_ops.ledger.trial_listing import list_trials


def read_trial_detail(ledger: Ledger, record: StudyRecord, number: int) -> TrialDetail:
    """Reads one trial, including its folds in a study with folds.

    Raises:
        LookupError: The study has no trial with this number.
    """
    numbers = fold_numbers(record, number)
    with ledger.connect() as connection:
        found = list_trials(connection, record.id, numbers=numbers)
        if record.config.folds is not None:
            found = [row for row in found if row.number != record.retraining]
        if not found:
            raise LookupError(f"study {record.key} has no trial {number}")
        segments = list_segments_of_trials(connection, record.id, numbers=numbers)
        parts = [summarise_trial(row) for row in found]
        summary = parts[0]
        if record.config.folds is not None:
            curves = read_curves(connection, record.id, numbers=numbers)
            summary = aggregate_folds(record, number, parts, curves)
    return TrialDetail(
        summary=summary,
        seed=found[0].seed,
        data_version=record.config.data.version,
        segments=[_segment_detail(segment) for segment in segments],
    )


def _segment_detail(segment: SegmentHistory) -> SegmentDetail:
    return SegmentDetail(
        id=segment.id,
        runner=segment.runner,
        from_step=segment.from_step,
        until_step=segment.until_step,
        step=segment.step,
        outcome=segment.outcome,
        cause=segment.cause,
        reason=segment.reason,
        trial=segment.trial,
        provenance=segment.provenance,
    )
