"""Routes of the reconciler: for its scheduled task, and for people with the right to."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body

from hpo_ops.core.leftovers import LedgerPart
from hpo_ops.gateway.http.routes import Editable, Known, Service
from hpo_ops.gateway.services import ledger_repair

MAX_SEGMENTS = 50_000

reconciling = APIRouter(tags=["people"])


@reconciling.post("/reconcile")
def read_ledger(
    caller: Known,
    studies: Service,
    segments: Annotated[list[str] | None, Body(max_length=MAX_SEGMENTS)] = None,
) -> LedgerPart:
    """What the ledger has open, and what it knows of the segments that are asked about.

    Changes nothing; it is a POST because the segments of a whole cluster do not fit an address.
    """
    caller.require_person()
    return ledger_repair.read_ledger(
        studies.ledger,
        segments or [],
        may_read=caller.may_read,
        may_edit=caller.may_edit,
        is_operator=caller.may_operate(),
    )


@reconciling.post("/studies/{study_id}/close")
def close_study(record: Editable, caller: Known, studies: Service, reason: str = "") -> None:
    """Closes a study whose DAG run is over, as `finalize` would have."""
    ledger_repair.close_study(studies, record.id, reason or f"closed by {caller.name}")


@reconciling.post("/studies/{study_id}/segments/{segment}/lose")
def lose_segment(record: Editable, segment: str, studies: Service, reason: str = "") -> bool:
    """Finishes a segment that nothing is left of; false where it has shown signs of life."""
    return ledger_repair.lose_segment(
        studies.ledger, record.id, segment, reason or "nothing is left of it"
    )


@reconciling.post("/studies/{study_id}/leases/free")
def free_leases(record: Editable, studies: Service) -> list[str]:
    """Gives back leases of segments that are over, and returns those segments."""
    return ledger_repair.free_leases(studies.ledger, record.id)
