"""The route that issues agents temporary credentials for their part of the object store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request

from hpo_ops.checkpoints.session_policy import StoreAccess
from hpo_ops.client.store_session import StoreSession
from hpo_ops.gateway.http._route_dependencies import AGENT_ONLY, AGENTS, GatewayServices

logger = logging.getLogger(__name__)

OpenSession = Callable[[StoreAccess, str], StoreSession]
"""Issues temporary credentials for the part of the store that a segment may access.

The arguments are that part and the segment's id. Raises LookupError if no role is set up."""

store_session_router = APIRouter(
    prefix="/segments/{segment}", tags=[AGENTS], dependencies=[AGENT_ONLY]
)


async def _open_session(request: Request) -> OpenSession:
    found: OpenSession | None = request.app.state.open_store_session
    if found is None:
        raise HTTPException(404, "this gateway issues no temporary credentials of the store")
    return found


@store_session_router.post("/credentials")
def store_session(
    segment: str,
    gateway: GatewayServices,
    open_session: Annotated[OpenSession, Depends(_open_session)],
) -> StoreSession:
    """Issues temporary credentials for the part of the store that an open segment needs."""
    access = gateway.segments.store_access(segment)
    try:
        return open_session(access, segment)
    except ConnectionError as error:
        logger.warning("no credentials for segment %s: %s", segment, error)
        raise HTTPException(
            503, "the store issues no temporary credentials at the moment: try again later"
        ) from error
