"""Routes of segments: reports, checkpoints, forecasts, ends and heartbeats.

A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, HTTPException

from hpo_ops.client import SegmentReceipt
from hpo_ops.gateway.http._route_dependencies import (
    AGENT_ONLY,
    AGENTS,
    TASK_ONLY,
    TASKS,
    CurrentCaller,
    GatewayServices,
    OpenLedger,
    check_segment_access,
)
from hpo_ops.gateway.http.request_limits import MAX_REPORTS
from hpo_ops.protocol import Checkpoint, Control, CurveForecast, Provenance, Report, SegmentResult

MAX_PROVENANCE = 100_000
"""The largest number of characters of a segment's provenance as JSON.

Provenance is the code, image, packages and hardware that a segment was trained with."""

segment_task_router = APIRouter(tags=[TASKS], dependencies=[TASK_ONLY])
segment_router = APIRouter(prefix="/segments/{segment}", tags=[AGENTS], dependencies=[AGENT_ONLY])


@segment_task_router.post("/alive")
def keep_alive(
    segments: list[str], caller: CurrentCaller, gateway: GatewayServices, ledger: OpenLedger
) -> list[str]:
    """Extends the leases of segments whose pods exist; returns the segments to terminate."""
    for segment in segments:
        check_segment_access(segment, caller, ledger)
    return gateway.segments.keep_alive(segments)


@segment_router.post("/reports")
def report(segment: str, reports: list[Report], gateway: GatewayServices) -> Control:
    """Records a segment's reports and a heartbeat; returns the requested action, such as pause."""
    _check_count(reports)
    return gateway.segments.report(segment, reports)


@segment_router.get("/curve")
def curve(segment: str, gateway: GatewayServices) -> list[tuple[int, float]]:
    """Lists the reported values of the segment's trial by step, for the agent's forecasts."""
    return gateway.segments.curve(segment)


@segment_router.post("/forecasts")
def forecast(segment: str, forecast: CurveForecast, gateway: GatewayServices) -> None:
    """Records the agent's forecast of the learning curve of the segment's trial."""
    gateway.segments.forecast(segment, forecast)


@segment_router.post("/checkpoints")
def checkpoint(segment: str, checkpoint: Checkpoint, gateway: GatewayServices) -> None:
    """Records that a checkpoint of the segment's trial is complete in the store."""
    gateway.segments.checkpoint(segment, checkpoint)


@segment_router.post("/result")
def finish(
    segment: str,
    result: Annotated[SegmentResult, Body()],
    caller: CurrentCaller,
    gateway: GatewayServices,
    reports: Annotated[list[Report] | None, Body()] = None,
    provenance: Annotated[Provenance | None, Body()] = None,
    is_fallback: Annotated[bool, Body()] = False,
) -> SegmentReceipt:
    """Records how the segment ended, with its last reports; returns the recorded end.

    Only the first reported end is recorded. A task that knows only the state of the pod marks the
    end as a fallback, for the case that the agent has reported no end. The response includes the
    trial's result if the trial is finished.
    """
    _check_count(reports or [])
    provenance = provenance or Provenance()
    if len(provenance.to_json()) > MAX_PROVENANCE:
        raise HTTPException(
            413, f"provenance is longer than {MAX_PROVENANCE} characters, the maximum"
        )
    return gateway.segments.finish(
        segment,
        result,
        reports or [],
        provenance,
        is_agent=caller.segment is not None,
        is_fallback=is_fallback,
    )


def _check_count(reports: list[Report]) -> None:
    if len(reports) > MAX_REPORTS:
        raise HTTPException(
            413, f"the request has {len(reports)} reports, but at most {MAX_REPORTS} are allowed"
        )
