"""Triggers that listen to the ledger: a waiting trial costs no worker.

All triggers of a triggerer share one listener, which asks the gateway about all of them at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
from airflow.sdk import BaseHook
from airflow.triggers.base import BaseTrigger, TriggerEvent

from hpo_ops.airflow.connections import GATEWAY, gateway_address
from hpo_ops.client.http import API

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0


class Listener:
    """Asks the gateway, once for all that wait, whose turn has come."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int | None], list[asyncio.Future[str]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def wait(self, study_id: int, trial: int | None) -> str:
        """Returns, with the reason, when it is worth asking the gateway for a turn again."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        key = (study_id, trial)
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
        url, token = gateway_address(await BaseHook.aget_connection(GATEWAY))
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
            while self._waiting:
                try:
                    await self._ask(client)
                except (httpx.HTTPError, ValueError) as error:
                    logger.warning("the gateway is away: %s", error)
                await asyncio.sleep(POLL_SECONDS)

    async def _ask(self, client: httpx.AsyncClient) -> None:
        keys = list(self._waiting)
        body = [{"study_id": study_id, "trial": trial} for study_id, trial in keys]
        answer = await client.post(f"{API}/ready", json=body)
        answer.raise_for_status()
        for item in answer.json():
            for future in self._waiting.get((item["study_id"], item["trial"]), []):
                if not future.done():
                    future.set_result(item["reason"])


_listener = Listener()


class TurnTrigger(BaseTrigger):
    """Fires when a waiting trial may have its turn, or a waiting study may go on."""

    def __init__(self, *, study_id: int, trial: int | None = None) -> None:
        super().__init__()
        self.study_id = study_id
        self.trial = trial

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        path = f"{kind.__module__}.{kind.__qualname__}"
        return path, {"study_id": self.study_id, "trial": self.trial}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield TriggerEvent({"reason": await _listener.wait(self.study_id, self.trial)})
