from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from hpo_ops.client import (
    GatewayRefusedError,
    GatewayUnreachableError,
    TriggererClient,
    Waiter,
    WakeUp,
)
from hpo_ops.protocol import VERSION_HEADER

Answer = Callable[[httpx.Request], httpx.Response]


def ask(answer: Answer, call: Callable[[TriggererClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
            return await call(TriggererClient("http://gateway", "secret", http=http))

    return asyncio.run(run())


def test_waiters_go_out_and_wake_ups_come_back() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=[{"study_id": 1, "trial": 2, "reason": "a slot is free"}])

    woken = ask(answer, lambda client: client.ready([Waiter(study_id=1, trial=2)]))
    assert woken == [WakeUp(study_id=1, trial=2, reason="a slot is free")]
    assert seen[0].url == "http://gateway/hpo/api/v1/ready"
    assert json.loads(seen[0].content) == [{"study_id": 1, "trial": 2, "seen": None}]
    assert seen[0].headers["Authorization"] == "Bearer secret"
    assert seen[0].headers[VERSION_HEADER]


def test_a_heartbeat_returns_the_segments_to_terminate() -> None:
    found = ask(
        lambda _: httpx.Response(200, json=["b"]), lambda client: client.keep_alive(["a", "b"])
    )
    assert found == ["b"]


def no_answer(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda _: httpx.Response(503, text="later"), GatewayUnreachableError),
        (lambda _: httpx.Response(403, text="no"), GatewayRefusedError),
        (lambda _: httpx.Response(200, json={"not": "a list"}), ValueError),
        (lambda _: httpx.Response(200, json=[{"study_id": "x"}]), ValueError),
        (no_answer, GatewayUnreachableError),
    ],
)
def test_each_failure_has_its_error(answer: Answer, error: type[Exception]) -> None:
    with pytest.raises(error):
        ask(answer, lambda client: client.ready([]))
