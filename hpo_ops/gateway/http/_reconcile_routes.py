"""Routes of the reconciler, for its scheduled task and for people who may change studies."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body

from hpo_ops.core.leftovers import LedgerPart
from hpo_ops.gateway.http._route_dependencies import (
    PEOPLE,
    CurrentCaller,
    EditableStudy,
    GatewayServices,
    OpenLedger,
)
from hpo_ops.gateway.services import ledger_repair

MAX_SEGMENTS = 50_000
"""The largest number of segments in one request."""

reconcile_router = APIRouter(tags=[PEOPLE])


@reconcile_router.post("/reconcile")
def read_ledger(
    caller: CurrentCaller,
    ledger: OpenLedger,
    segments: Annotated[list[str] | None, Body(max_length=MAX_SEGMENTS)] = None,
) -> LedgerPart:
    """Lists the open studies, segments and leases, and the state of the given segments.

    The request changes nothing. It is a POST because the list of segments may exceed a URL.
    """
    caller.require_person()
    return ledger_repair.read_ledger(
        ledger,
        segments or [],
        may_read=caller.may_read,
        may_edit=caller.may_edit,
        is_operator=caller.may_operate(),
    )


@reconcile_router.post("/studies/{study_id}/close")
def close_study(
    record: EditableStudy, caller: CurrentCaller, gateway: GatewayServices, reason: str = ""
) -> None:
    """Closes a study whose DAG run is over, as the task `finalize` would have done."""
    ledger_repair.close_study(gateway.studies, record.id, reason or f"closed by {caller.name}")


@reconcile_router.post("/studies/{study_id}/segments/{segment}/lose")
def lose_segment(
    record: EditableStudy, segment: str, ledger: OpenLedger, reason: str = ""
) -> bool:
    """Ends a segment whose process or pod is gone; returns whether the segment has ended.

    A segment that has sent a heartbeat in the meantime is not ended.
    """
    return ledger_repair.lose_segment(
        ledger, record.id, segment, reason or "its process or pod is gone"
    )


@reconcile_router.post("/studies/{study_id}/leases/free")
def free_leases(record: EditableStudy, ledger: OpenLedger) -> list[str]:
    """Releases the leases of the study's ended segments; returns the ids of these segments."""
    return ledger_repair.free_leases(ledger, record.id)
