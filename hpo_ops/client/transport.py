"""Sends HTTP requests to the gateway, and maps error responses to exceptions."""

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
"""URL path at which the gateway is mounted."""
API = f"{PREFIX}/api/v1"
Token = str | Callable[[], str]
Files = Mapping[str, tuple[str, bytes]]
"""Files of a multipart form: (file name, content) by the name of the form field."""
RENEWED_TOKEN = "HPO-Token"  # noqa: S105  a name
"""Response header with a new token for a segment whose token is about to expire."""
MAX_BUSY_SECONDS = 60.0
"""Upper limit on the seconds that the client waits because of a ``Retry-After`` header."""


def request_headers(token: str) -> dict[str, str]:
    """Returns the headers of every request: the token and the sender's protocol version."""
    return {VERSION_HEADER: str(VERSION), "Authorization": f"Bearer {token}"}


class Transport:
    """Sends requests to the gateway, and raises a distinct exception for each kind of failure.

    Args:
        url: URL of the gateway's server.
        token: A token, or a function that returns a token for each request.
        timeout: Seconds to wait for an answer.
        client: The HTTP client to use; None to create an HTTP client.
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
        """Sends one request and returns the decoded JSON body of the answer.

        Args:
            method: HTTP method.
            path: Path below the API's prefix.
            body: JSON body of the request.
            files: Files to send as a multipart form, instead of a body.
            headers: Additional headers.
            **query: Query parameters by name; a parameter whose value is None is omitted.

        Raises:
            GatewayUnreachableError: The gateway did not answer, or is temporarily unavailable.
            Exception: Any other error that `read_answer` raises.
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
    """Returns the decoded JSON body of a successful answer; None if the body is empty.

    Raises:
        GatewayUnreachableError: The gateway is temporarily unavailable; the subclasses
            `GatewayFailedError` and `GatewayBusyError` stand for an internal error and for too
            many requests.
        GatewayRefusedError: The gateway does not accept the request's token.
        LookupError: The requested object does not exist.
        ValueError: The request is invalid; the message explains why.
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
