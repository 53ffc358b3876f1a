"""Triggers that poll the gateway, so that the task of a waiting trial occupies no worker process.

All triggers of a triggerer process share one listener, which polls for all of them in one request.
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
"""Errors after which the listener polls again, because only an answer may end a wait."""
Key = tuple[int, int | None, int | None]
"""Identifies a wait: study id, trial number or None, and `seen` (see `TrialWakeTrigger`)."""


class Listener:
    """Polls the gateway for all waiting triggers of this process in one request."""

    def __init__(self) -> None:
        self._waiting: dict[Key, list[asyncio.Future[WakeUp]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def wait(self, key: Key) -> WakeUp:
        """Waits until the gateway answers that the trial or study in `key` need not wait any more.

        Returns:
            The gateway's answer, which contains the reason for ending the wait.
        """
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
    """Fires when a waiting trial may run or has ended, or when a study's state has changed.

    If the waiting trial was pruned, for example because its study is over, the trigger marks the
    trial's task as skipped and pushes the trial's result to XCom.

    Args:
        study_id: The study's id.
        trial: Number of the waiting trial; if None, the trigger waits for the study, which must
            be over or, if it has rounds (`flow: rounds`), no longer paused.
        seen: Number of ended trials that the task already knows, if `trial` is None: in a rolling
            study (`flow: rolling`) the trigger also fires when more trials have ended. None if
            the trigger is to wait for the end of a rolling study.
        timeout_seconds: Time after which the trigger fires in any case; None for no timeout.
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
