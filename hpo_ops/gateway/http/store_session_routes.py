"""The route by which agents get temporary credentials for their part of the store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request

from hpo_ops.checkpoints.session_policy import StoreAccess
from hpo_ops.client.store_session import StoreSession
from hpo_ops.gateway.http.routes import Agent, Service

logger = logging.getLogger(__name__)

OpenSession = Callable[[StoreAccess, str], StoreSession]
"""Makes credentials for an access of a segment; raises LookupError where there is no role."""

store_sessions = APIRouter(prefix="/segments/{segment}", tags=["agents"], dependencies=[Agent])


def _open_session(request: Request) -> OpenSession:
    found: OpenSession | None = request.app.state.open_store_session
    if found is None:
        raise HTTPException(404, "this gateway hands out no credentials of the store")
    return found


@store_sessions.post("/credentials")
def store_session(
    segment: str, studies: Service, open_session: Annotated[OpenSession, Depends(_open_session)]
) -> StoreSession:
    """Credentials for the part of the store that an open segment needs."""
    access = studies.store_access(segment)
    try:
        return open_session(access, segment)
    except ConnectionError as error:
        logger.warning("no credentials for segment %s: %s", segment, error)
        raise HTTPException(503, "the store hands out no credentials now") from error
