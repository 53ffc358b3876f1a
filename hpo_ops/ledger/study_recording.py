"""Paged queries for the recorded events, reports and segments of a study.

Times given as numbers are seconds since the study started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Double, cast, func, literal, select

from hpo_ops.ledger._schema import events, reports, segments, studies
from hpo_ops.ledger._study_record import StudyRecord
from hpo_ops.protocol import Provenance


@dataclass(frozen=True, kw_only=True)
class RecordedEvent:
    """An event in the history of a study.

    Attributes:
        id: Id of the event; ids increase over time.
        at: Time of the event.
        kind: Kind of the event, a value of `EventKind`.
        trial: Number of the trial that the event concerns; None for events of the study itself.
        data: Details of the event.
    """

    id: int
    at: datetime
    kind: str
    trial: int | None
    data: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReportColumns:
    """Reports as columns of equal length, in the order in which the reports arrived.

    Attributes:
        ids: Id of each report; ids increase over time.
        trials: Trial number of each report.
        steps: Step of each report.
        values: Value of the objective in each report.
        seconds: Duration of each reported step.
        times: Arrival of each report, in seconds since the study started.
    """

    ids: Sequence[int] = ()
    trials: Sequence[int] = ()
    steps: Sequence[int] = ()
    values: Sequence[float] = ()
    seconds: Sequence[float] = ()
    times: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class RecordedSegment:
    """A segment (one uninterrupted execution of a trial) with its start and end.

    Attributes:
        trial: Number of the trial.
        from_step: Step of the checkpoint from which the segment started; 0 without a checkpoint.
        step: Last trained step; None while the segment is open.
        outcome: How the segment ended; None while it is open.
        reason: Why the segment ended, as a sentence for people.
        units: Number of resource units (such as GPUs) of the segment.
        start: Start in seconds since the study started.
        end: End in seconds since the study started; None while the segment is open.
    """

    trial: int
    from_step: int
    step: int | None
    outcome: str | None
    reason: str
    units: float
    start: float
    end: float | None


@dataclass(frozen=True, kw_only=True)
class SegmentHistory:
    """A segment with its outcome and its provenance (code, image, packages, hardware)."""

    id: str
    trial: int
    runner: str
    from_step: int
    until_step: int | None
    step: int | None
    outcome: str | None
    cause: str | None
    reason: str
    provenance: Provenance


def list_events(
    connection: Connection, study_id: int, *, after: int, limit: int
) -> list[RecordedEvent]:
    """Lists at most `limit` events of a study with ids greater than `after`, oldest first."""
    rows = connection.execute(
        select(events.c.id, events.c.at, events.c.kind, events.c.trial, events.c.data)
        .where(events.c.study_id == study_id, events.c.id > after)
        .order_by(events.c.id)
        .limit(limit)
    )
    return [RecordedEvent(**row._mapping) for row in rows]


def read_report_columns(
    connection: Connection, record: StudyRecord, *, after: int, limit: int
) -> ReportColumns:
    """Reads at most `limit` reports of a study with ids greater than `after`, oldest first."""
    rows = connection.execute(
        select(
            reports.c.id,
            reports.c.trial,
            reports.c.step,
            reports.c.value,
            reports.c.seconds,
            _seconds_into_study(record, reports.c.at),
        )
        .where(reports.c.study_id == record.id, reports.c.id > after)
        .order_by(reports.c.id)
        .limit(limit)
    ).all()
    if not rows:
        return ReportColumns()
    ids, trials, steps, values, seconds, times = zip(*rows, strict=True)
    return ReportColumns(
        ids=ids, trials=trials, steps=steps, values=values, seconds=seconds, times=times
    )


def list_segments(
    connection: Connection, record: StudyRecord, *, offset: int, limit: int
) -> list[RecordedSegment]:
    """Lists at most `limit` segments of a study by start time, without the first `offset`."""
    rows = connection.execute(
        select(
            segments.c.trial,
            segments.c.from_step,
            segments.c.step,
            segments.c.outcome,
            segments.c.reason,
            segments.c.units,
            _seconds_into_study(record, segments.c.at).label("start"),
            _seconds_into_study(record, segments.c.ended_at).label("end"),
        )
        .where(segments.c.study_id == record.id)
        .order_by(segments.c.at, segments.c.id)
        .offset(offset)
        .limit(limit)
    )
    return [
        RecordedSegment(
            trial=trial,
            from_step=from_step,
            step=step,
            outcome=outcome,
            reason=reason,
            units=units,
            start=start,
            end=end,
        )
        for trial, from_step, step, outcome, reason, units, start, end in rows
    ]


def list_segments_of_trials(
    connection: Connection, study_id: int, *, numbers: range
) -> list[SegmentHistory]:
    """Lists the segments of the trials with the given numbers, oldest segment first."""
    table = segments.c
    rows = connection.execute(
        select(
            table.id,
            table.trial,
            table.runner,
            table.from_step,
            table.until_step,
            table.step,
            table.outcome,
            table.cause,
            table.reason,
            table.provenance,
        )
        .where(table.study_id == study_id, table.trial.between(numbers.start, numbers.stop - 1))
        .order_by(table.at, table.id)
    )
    return [
        SegmentHistory(
            **{**row._mapping, "provenance": Provenance.from_dict(row.provenance or {})}
        )
        for row in rows
    ]


def study_seconds(connection: Connection, study_id: int) -> float:
    """Returns the seconds from the start of a study to its end, or until now if it is open."""
    end = func.coalesce(studies.c.ended_at, func.now())
    found = connection.execute(
        select(func.extract("epoch", end - studies.c.at)).where(studies.c.id == study_id)
    ).scalar_one()
    return float(found)


def _seconds_into_study(
    record: StudyRecord, moment: ColumnElement[object]
) -> ColumnElement[float]:
    return cast(func.extract("epoch", moment - literal(record.started_at)), Double)
