"""HTTP requests to the gateway, and what their answers mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import httpx

from hpo_ops.client._gateway_errors import (
    GatewayBusyError,
    GatewayFailedError,
    GatewayRefusedError,
    GatewayUnreachableError,
)
from hpo_ops.protocol import VERSION, VERSION_HEADER

PREFIX = "/hpo"
"""Path at which the gateway is mounted."""
API = f"{PREFIX}/api/v1"
Token = str | Callable[[], str]
Files = Mapping[str, tuple[str, bytes]]
"""Parts of a form: file name and content by field."""
RENEWED_TOKEN = "HPO-Token"  # noqa: S105  a name
"""Header of an answer with a new token for a segment whose token is about to expire."""
MAX_BUSY_SECONDS = 60.0
"""Longest pause that an answer can ask for."""


def request_headers(token: str) -> dict[str, str]:
    """Headers of every request: who sends it, and which version of the protocol they speak."""
    return {VERSION_HEADER: str(VERSION), "Authorization": f"Bearer {token}"}


class Transport:
    """Sends requests to the gateway, and turns each kind of failure into one kind of error.

    Args:
        url: URL of the gateway's server.
        token: A token, or a function that returns one for each request.
        timeout: Seconds to wait for an answer.
        client: The HTTP client to use instead of one of its own.
    """

    def __init__(
        self, url: str, token: Token, *, timeout: float = 30.0, client: httpx.Client | None = None
    ) -> None:
        # Making a TLS context takes longer than a request; plain HTTP needs none.
        is_secure = url.startswith("https")
        self._http = client or httpx.Client(
            base_url=url.rstrip("/"), timeout=timeout, verify=is_secure
        )
        self._token = token

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        files: Files | None = None,
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Any:
        """Sends one request, with a body or a form of files.

        Raises:
            GatewayUnreachableError: No answer, or one that says to try again later.
            Exception: As `read_answer`.
        """
        query = {name: value for name, value in query.items() if value is not None}
        token = self._token if isinstance(self._token, str) else self._token()
        headers = {**(headers or {}), **request_headers(token)}
        try:
            answer = self._http.request(
                method, f"{API}{path}", json=body, files=files, headers=headers, params=query
            )
        except httpx.TransportError as error:
            raise GatewayUnreachableError(f"{self._http.base_url}: {error}") from error
        if RENEWED_TOKEN in answer.headers:
            self._token = answer.headers[RENEWED_TOKEN]
        return read_answer(answer)


def read_answer(answer: httpx.Response) -> Any:
    """The body of a successful answer.

    Raises:
        GatewayUnreachableError: The answer says to try again later.
        GatewayRefusedError: The token is not accepted.
        LookupError: There is no such thing.
        ValueError: The gateway does not accept what was sent; the message says why.
    """
    if answer.is_success:
        return answer.json() if answer.content else None
    message = _message(answer)
    if answer.status_code in (401, 403, 410):
        raise GatewayRefusedError(message)
    if answer.status_code == 404:
        raise LookupError(message)
    if answer.status_code == 429:
        raise GatewayBusyError(message, wait_seconds=_retry_after(answer))
    if answer.status_code < 500:
        raise ValueError(message)
    if answer.status_code == 500:
        raise GatewayFailedError(message)
    raise GatewayUnreachableError(f"{answer.status_code}: {message}")


def _retry_after(answer: httpx.Response) -> float:
    text = answer.headers.get("Retry-After", "")
    return min(float(text), MAX_BUSY_SECONDS) if text.isascii() and text.isdigit() else 1.0


def _message(answer: httpx.Response) -> str:
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return answer.text[:500] or answer.reason_phrase
    return detail if isinstance(detail, str) else str(detail)
