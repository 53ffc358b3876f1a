"""What a study left behind, to be replayed: every report and segment, page by page."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Double, cast, func, literal, select

from hpo_ops.client import ReportPage, SegmentSummary
from hpo_ops.ledger import Ledger, StudyRecord
from hpo_ops.ledger.schema import reports, segments


def reports_after(ledger: Ledger, record: StudyRecord, *, after: int, limit: int) -> ReportPage:
    """The reports after an id, in the order in which they came."""
    with ledger.engine.connect() as connection:
        rows = connection.execute(
            select(
                reports.c.id,
                reports.c.trial,
                reports.c.step,
                reports.c.value,
                reports.c.seconds,
                _since(record, reports.c.at),
            )
            .where(reports.c.study_id == record.id, reports.c.id > after)
            .order_by(reports.c.id)
            .limit(limit)
        ).all()
    if not rows:
        return ReportPage()
    ids, trials, steps, values, seconds, times = (
        list(column) for column in zip(*rows, strict=True)
    )
    return ReportPage(
        ids=ids, trials=trials, steps=steps, values=values, seconds=seconds, times=times
    )


def segments_from(
    ledger: Ledger, record: StudyRecord, *, offset: int, limit: int
) -> list[SegmentSummary]:
    """The segments from a place in their order on, oldest first."""
    with ledger.engine.connect() as connection:
        rows = connection.execute(
            select(
                segments.c.trial,
                segments.c.from_step,
                segments.c.step,
                segments.c.outcome,
                segments.c.reason,
                segments.c.units,
                _since(record, segments.c.at).label("start"),
                _since(record, segments.c.ended_at).label("end"),
            )
            .where(segments.c.study_id == record.id)
            .order_by(segments.c.at, segments.c.id)
            .offset(offset)
            .limit(limit)
        ).all()
    return [SegmentSummary(**row._mapping) for row in rows]


def _since(record: StudyRecord, moment: ColumnElement[object]) -> ColumnElement[float]:
    """Seconds from the start of the study to a moment."""
    return cast(func.extract("epoch", moment - literal(record.started_at)), Double)
