"""Following the log of a pod's training: what comes in between, and what is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientPayloadError

from hpo_ops.runners.kubernetes import _pod_trigger
from hpo_ops.runners.kubernetes._pod_trigger import SegmentTrigger


class Answer:
    """An answer of the cluster's, whose body may break off."""

    def __init__(self, status: int, *lines: str, breaks_off: bool = False) -> None:
        self.status = status
        self.content = self._stream(lines, breaks_off)

    async def _stream(self, lines: tuple[str, ...], breaks_off: bool) -> AsyncIterator[bytes]:
        for line in lines:
            yield f"{line}\n".encode()
        if breaks_off:
            raise ClientPayloadError("the connection was closed")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        # Its container waits to start; then its node cannot say; then it can.
        ([Answer(400), Answer(500), Answer(200, "one", "two")], ["one", "two"]),
        ([Answer(200, "one", breaks_off=True), Answer(200, "two")], ["one", "two"]),
        ([Answer(404), Answer(200, "of another")], []),
    ],
)
def test_a_log_is_followed_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    answers: list[Answer],
    said: list[str],
) -> None:
    class Hook:
        def __init__(self, conn_id: str) -> None:
            pass

        @asynccontextmanager
        async def get_conn(self) -> AsyncIterator[None]:
            yield None

    class Api:
        def __init__(self, connection: Any) -> None:
            pass

        async def read_namespaced_pod_log(self, *_: Any, **__: Any) -> Answer:
            return left.pop(0)

    left = list(answers)
    monkeypatch.setattr(_pod_trigger, "AsyncKubernetesHook", Hook)
    monkeypatch.setattr(_pod_trigger.kubernetes, "CoreV1Api", Api)
    monkeypatch.setattr(_pod_trigger, "POLL_SECONDS", 0.0)
    trigger = SegmentTrigger(
        segment="s", namespace="n", pod="p", conn_id="c", schedule_timeout=60.0
    )
    written: list[str] = []
    monkeypatch.setattr(trigger.log, "info", lambda text, *words: written.append(text % words))
    asyncio.run(asyncio.wait_for(trigger._follow_log(), 10))
    assert written == said
