"""Paged queries for the recorded events, reports and segments with which a study is replayed."""

from __future__ import annotations

from hpo_ops.client import ReportPage, SegmentSummary
from hpo_ops.ledger import Ledger, StudyRecord, study_recording
from hpo_ops.ledger.study_recording import RecordedEvent


def list_events(
    ledger: Ledger, record: StudyRecord, *, after: int, limit: int
) -> list[RecordedEvent]:
    """Lists at most `limit` events of a study with ids greater than `after`, oldest first."""
    with ledger.connect() as connection:
        return study_recording.list_events(connection, record.id, after=after, limit=limit)


def read_report_page(ledger: Ledger, record: StudyRecord, *, after: int, limit: int) -> ReportPage:
    """Reads at most `limit` reports of a study with ids greater than `after`, oldest first."""
    with ledger.connect() as connection:
        columns = study_recording.read_report_columns(connection, record, after=after, limit=limit)
    return ReportPage(
        ids=list(columns.ids),
        trials=list(columns.trials),
        steps=list(columns.steps),
        values=list(columns.values),
        seconds=list(columns.seconds),
        times=list(columns.times),
    )


def list_segments(
    ledger: Ledger, record: StudyRecord, *, offset: int, limit: int
) -> list[SegmentSummary]:
    """Lists at most `limit` segments of a study by start time, without the first `offset`."""
    with ledger.connect() as connection:
        rows = study_recording.list_segments(connection, record, offset=offset, limit=limit)
    return [
        SegmentSummary(
            trial=row.trial,
            start=row.start,
            from_step=row.from_step,
            end=row.end,
            step=row.step,
            outcome=row.outcome,
            reason=row.reason,
            units=row.units,
        )
        for row in rows
    ]
