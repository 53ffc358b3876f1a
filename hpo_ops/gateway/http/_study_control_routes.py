"""Routes by which people control a running study: stop, pause, resume, change."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from hpo_ops.gateway.http._route_dependencies import (
    PEOPLE,
    CurrentCaller,
    EditableStudy,
    GatewayServices,
)

study_control_router = APIRouter(tags=[PEOPLE])


@study_control_router.post("/studies/{study_id}/stop")
def stop(
    record: EditableStudy, caller: CurrentCaller, gateway: GatewayServices, reason: str = ""
) -> None:
    """Stops a study: running trials save a checkpoint and end; the best trial is published."""
    gateway.studies.stop(record.id, reason or f"stopped by {caller.name}")


@study_control_router.post("/studies/{study_id}/pause")
def pause(
    record: EditableStudy, caller: CurrentCaller, gateway: GatewayServices, reason: str = ""
) -> None:
    """Pauses a study: running trials save a checkpoint and pause; no other trial starts."""
    gateway.studies.pause(record.id, reason or f"paused by {caller.name}")


@study_control_router.post("/studies/{study_id}/resume")
def resume(record: EditableStudy, gateway: GatewayServices) -> None:
    """Resumes a paused study."""
    gateway.studies.resume(record.id)


@study_control_router.post("/studies/{study_id}/config")
def change(
    record: EditableStudy, changes: dict[str, Any], gateway: GatewayServices
) -> dict[str, Any]:
    """Changes configuration values of a running study.

    The values are given by dotted keys. Returns all changeable keys with their new values.
    """
    return gateway.studies.change(record.id, changes)
