"""Routes that list all events, reports and segments of a study, page by page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from hpo_ops.client import ReportPage, SegmentSummary
from hpo_ops.gateway.http._route_dependencies import PEOPLE, OpenLedger, ReadableStudy
from hpo_ops.gateway.http.request_limits import MAX_REPORTS
from hpo_ops.gateway.queries.recorded_study import list_events, list_segments, read_report_page
from hpo_ops.ledger.study_recording import RecordedEvent

recording_router = APIRouter(tags=[PEOPLE])


@recording_router.get("/studies/{study_id}/events")
def events(
    record: ReadableStudy,
    ledger: OpenLedger,
    after: int = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> list[RecordedEvent]:
    """Lists a study's events whose id is greater than `after`, oldest first."""
    return list_events(ledger, record, after=after, limit=limit)


@recording_router.get("/studies/{study_id}/reports")
def all_reports(
    record: ReadableStudy,
    ledger: OpenLedger,
    after: int = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_REPORTS)] = MAX_REPORTS,
) -> ReportPage:
    """Lists a study's reports whose id is greater than `after`, oldest first."""
    return read_report_page(ledger, record, after=after, limit=limit)


@recording_router.get("/studies/{study_id}/segments")
def all_segments(
    record: ReadableStudy,
    ledger: OpenLedger,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_REPORTS)] = MAX_REPORTS,
) -> list[SegmentSummary]:
    """Lists the segments of all trials of a study, oldest first."""
    return list_segments(ledger, record, offset=offset, limit=limit)
