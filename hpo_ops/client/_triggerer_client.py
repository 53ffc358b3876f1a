"""The gateway client of Airflow's triggerer, which waits on behalf of many deferred tasks."""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from hpo_ops.client._gateway_errors import GatewayUnreachableError
from hpo_ops.client._next_action import Waiter, WakeUp
from hpo_ops.client.transport import API, read_answer, request_headers


class TriggererClient:
    """Sends the requests of Airflow triggers to the gateway.

    A failed request is not repeated, since triggers send their requests periodically. Every call
    may raise `GatewayUnreachableError` and the other errors of `read_answer`.

    Args:
        url: URL of the gateway's server.
        token: The triggerer's token.
        http: The HTTP client to use; the caller closes it.
    """

    def __init__(self, url: str, token: str, *, http: httpx.AsyncClient) -> None:
        self._url = url
        self._token = token
        self._http = http

    async def ready(self, waiters: Sequence[Waiter]) -> list[WakeUp]:
        """Returns a wake-up with its reason for each waiting task that is to be woken now."""
        found = await self._post("/ready", [waiter.to_dict() for waiter in waiters])
        return [WakeUp.from_dict(item) for item in _listed(found)]

    async def keep_alive(self, segments: Sequence[str]) -> list[str]:
        """Sends a heartbeat for segments whose pods exist; returns the segments to terminate."""
        found = await self._post("/alive", list(segments))
        return [str(item) for item in _listed(found)]

    async def _post(self, path: str, body: object) -> object:
        try:
            answer = await self._http.post(
                f"{self._url}{API}{path}", json=body, headers=request_headers(self._token)
            )
        except httpx.TransportError as error:
            raise GatewayUnreachableError(f"{self._url}: {error}") from error
        found: object = read_answer(answer)
        return found


def _listed(found: object) -> list[object]:
    if not isinstance(found, list):
        raise ValueError(f"the gateway answered {type(found).__name__}, but must answer a list")
    return found
