"""Triggers that listen to the ledger: a waiting trial costs no worker.

All triggers of a triggerer share one listener, which asks the gateway about all of them at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
from airflow.triggers.base import BaseTrigger, TaskSkippedEvent, TriggerEvent

from hpo_ops.airflow.connections import connect_triggerer
from hpo_ops.client import GatewayRefusedError, GatewayUnreachableError, Waiter, WakeUp

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
GATEWAY_ERRORS = (GatewayUnreachableError, GatewayRefusedError, LookupError, ValueError)
"""After any of these the listener asks again: a wait ends only by an answer."""
Key = tuple[int, int | None, int | None]
"""A wait: the study, the trial, and the number of ended trials that the waiter has seen."""


class Listener:
    """Polls the gateway for all waiting triggers of this process in one request."""

    def __init__(self) -> None:
        self._waiting: dict[Key, list[asyncio.Future[WakeUp]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def wait(self, key: Key) -> WakeUp:
        """Returns the gateway's answer when a wait is over."""
        future: asyncio.Future[WakeUp] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(future)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen())
        try:
            return await future
        finally:
            futures = self._waiting.get(key, [])
            if future in futures:
                futures.remove(future)
            if not futures:
                self._waiting.pop(key, None)

    async def _listen(self) -> None:
        async with httpx.AsyncClient(timeout=30) as client:
            while self._waiting:
                try:
                    await self._ask(client)
                except GATEWAY_ERRORS as error:
                    logger.warning("the gateway does not answer: %s", error)
                await asyncio.sleep(POLL_SECONDS)

    async def _ask(self, client: httpx.AsyncClient) -> None:
        keys = {(study_id, trial): seen for study_id, trial, seen in self._waiting}
        waiters = [
            Waiter(study_id=study_id, trial=trial, seen=seen)
            for (study_id, trial), seen in keys.items()
        ]
        gateway = await connect_triggerer(client)
        for woken in await gateway.ready(waiters):
            for key, futures in self._waiting.items():
                if key[:2] == (woken.study_id, woken.trial):
                    for future in futures:
                        if not future.done():
                            future.set_result(woken)


_listener = Listener()


class TrialWakeTrigger(BaseTrigger):
    """Fires when a waiting trial may run, or a study that is waited for has news.

    A trial that will not run any more, since its study is over, is skipped from here.

    Args:
        study_id: The study.
        trial: The trial; None waits for the study as a whole.
        seen: For a study: trials that had ended before; None waits for the study's end.
        timeout_seconds: Fires after so long in any case; None waits as long as it takes.
    """

    def __init__(
        self,
        *,
        study_id: int,
        trial: int | None = None,
        seen: int | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        super().__init__()
        self.study_id = study_id
        self.trial = trial
        self.seen = seen
        self.timeout_seconds = timeout_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        path = f"{kind.__module__}.{kind.__qualname__}"
        return path, {
            "study_id": self.study_id,
            "trial": self.trial,
            "seen": self.seen,
            "timeout_seconds": self.timeout_seconds,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        wait = _listener.wait((self.study_id, self.trial, self.seen))
        try:
            woken = await asyncio.wait_for(wait, self.timeout_seconds)
        except TimeoutError:
            yield TriggerEvent({"reason": "time to look again"})
            return
        if woken.score is not None:
            yield TaskSkippedEvent(xcoms={"return_value": woken.score.to_dict()})
        else:
            yield TriggerEvent({"reason": woken.reason})
