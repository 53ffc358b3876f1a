"""Routes that describe this API: as OpenAPI, and as a page for browsers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from hpo_ops.gateway.http._api_description import describe
from hpo_ops.gateway.http._route_dependencies import PEOPLE, CurrentCaller

api_description_router = APIRouter(tags=[PEOPLE])


@api_description_router.get("/openapi.json")
def openapi(request: Request, caller: CurrentCaller) -> dict[str, Any]:
    """Describes this API as OpenAPI."""
    caller.require_person()
    description: dict[str, Any] = request.app.openapi()
    return description


@api_description_router.get("/docs", response_class=HTMLResponse)
def docs(request: Request, caller: CurrentCaller) -> str:
    """Describes this API as an HTML page."""
    caller.require_person()
    return describe(request.app.openapi())
