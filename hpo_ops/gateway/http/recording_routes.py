"""Routes that page through everything recorded of a study: events, reports, segments."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from hpo_ops.client import ReportPage, SegmentSummary
from hpo_ops.gateway.http.request_limits import MAX_REPORTS
from hpo_ops.gateway.http.route_dependencies import PEOPLE, OpenLedger, ReadableStudy
from hpo_ops.gateway.queries import recorded_study, study_queries

recording_router = APIRouter(tags=[PEOPLE])


@recording_router.get("/studies/{study_id}/events")
def events(
    record: ReadableStudy,
    ledger: OpenLedger,
    after: int = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> list[dict[str, Any]]:
    """Lists a study's events with an id greater than `after`, oldest first."""
    return study_queries.happened(ledger, record, after=after, limit=limit)


@recording_router.get("/studies/{study_id}/reports")
def all_reports(
    record: ReadableStudy,
    ledger: OpenLedger,
    after: int = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_REPORTS)] = MAX_REPORTS,
) -> ReportPage:
    """Lists the reports of all trials with an id greater than `after`, oldest first."""
    return recorded_study.reports_after(ledger, record, after=after, limit=limit)


@recording_router.get("/studies/{study_id}/segments")
def all_segments(
    record: ReadableStudy,
    ledger: OpenLedger,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_REPORTS)] = MAX_REPORTS,
) -> list[SegmentSummary]:
    """Lists the segments of all trials, oldest first."""
    return recorded_study.segments_from(ledger, record, offset=offset, limit=limit)
