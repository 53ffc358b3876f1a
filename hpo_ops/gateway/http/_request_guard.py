"""An ASGI middleware in front of all routes that authenticates the caller of each request.

FastAPI reads and parses a body before it runs dependencies. A middleware can refuse a request
without valid credentials before the body is read.
"""

from __future__ import annotations

from fastapi import HTTPException
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hpo_ops.client.token_signing import KeyRing
from hpo_ops.client.transport import RENEWED_TOKEN
from hpo_ops.gateway.http._api_description import STYLE_SOURCE
from hpo_ops.gateway.http._authentication import Authenticator
from hpo_ops.gateway.http._caller_rights import Caller
from hpo_ops.gateway.http.request_limits import (
    RateLimiter,
    body_limit,
    check_body_headers,
    check_rate,
    check_url,
    limited,
)
from hpo_ops.gateway.tokens import issue_segment_token

CONTENT_POLICY = (
    f"default-src 'none'; style-src {STYLE_SOURCE}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": CONTENT_POLICY,
    "Referrer-Policy": "no-referrer",
}


class RequestGuard:
    """Authenticates requests, limits their rate and size, and forwards them to the routes.

    Args:
        app: The app with the routes, which read the caller from ``request.state.caller``.
        authenticator: Identifies the caller from the request's headers.
        rate: Limits the rate of each caller's requests.
        keys: The keys that sign new tokens for segments whose token is to be renewed.
        prefix: Prefix of the API's paths within the app.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        rate: RateLimiter,
        keys: KeyRing,
        prefix: str,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._rate = rate
        self._keys = keys
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(_HEADERS)
        send = _with_headers(send, headers)
        request = Request(scope)
        try:
            caller = await self._authenticator(request)
            check_url(request)
            self._check_rate(caller)
            most = body_limit(self._path(scope), request.headers.get("Content-Type", ""))
            check_body_headers(request, most)
        except HTTPException as error:
            answer = JSONResponse({"detail": error.detail}, error.status_code, error.headers)
            await answer(scope, receive, send)
            return
        if caller.segment is not None and caller.claims and caller.claims.is_to_be_renewed:
            headers[RENEWED_TOKEN] = issue_segment_token(self._keys, caller.segment)
        request.state.caller = caller
        await self._app(scope, limited(receive, most), send)

    def _path(self, scope: Scope) -> str:
        """Returns the request's path without the app's mount point and the API's prefix."""
        path: str = scope["path"]
        return path.removeprefix(scope.get("root_path", "")).removeprefix(self._prefix)

    def _check_rate(self, caller: Caller) -> None:
        if caller.claims is not None:
            name = f"{caller.claims.kind} {caller.claims.subject}"
        else:
            name = f"person {caller.name}"
        check_rate(self._rate, name)


def _with_headers(send: Send, headers: dict[str, str]) -> Send:
    """Wraps the ASGI function `send` so that the response has the given headers.

    The header with a renewed token is left out of responses with an error status.
    """

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            found = MutableHeaders(scope=message)
            is_success = message["status"] < 400
            for name, value in headers.items():
                if is_success or name != RENEWED_TOKEN:
                    found.setdefault(name, value)
        await send(message)

    return answer
