"""Triggers of waiting tasks, with a gateway that is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from airflow.triggers.base import TaskSkippedEvent, TriggerEvent

from hpo_ops.airflow import _triggers
from hpo_ops.airflow._triggers import Listener, TrialWakeTrigger
from hpo_ops.client import GatewayUnreachableError, TrialResult, Waiter, WakeUp
from hpo_ops.core import TrialState

PRUNED = TrialResult(trial=1, state=TrialState.PRUNED, reason="the study stops")


class Gateway:
    """Does not answer at first, then wakes everyone who waits."""

    def __init__(self) -> None:
        self.asked: list[list[Waiter]] = []

    async def ready(self, waiters: Sequence[Waiter]) -> list[WakeUp]:
        self.asked.append(list(waiters))
        if len(self.asked) == 1:
            raise GatewayUnreachableError("it restarts")
        return [
            WakeUp(
                study_id=item.study_id,
                trial=item.trial,
                reason="a slot is free",
                score=PRUNED if item.trial == 1 else None,
            )
            for item in waiters
        ]


def test_triggers_share_one_request_and_outlive_a_gateway_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = Gateway()

    async def connect(_: object) -> Gateway:
        return gateway

    monkeypatch.setattr(_triggers, "connect_triggerer", connect)
    monkeypatch.setattr(_triggers, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(_triggers, "_listener", Listener())

    async def fire(trial: int) -> Any:
        async for event in TrialWakeTrigger(study_id=4, trial=trial).run():
            return event
        return None

    async def both() -> tuple[Any, Any]:
        return await asyncio.gather(fire(0), fire(1))

    runs, skipped = asyncio.run(both())
    assert [item.trial for item in gateway.asked[0]] == [0, 1]
    assert isinstance(runs, TriggerEvent)
    assert runs.payload == {"reason": "a slot is free"}
    assert isinstance(skipped, TaskSkippedEvent)
    assert skipped.xcoms == {"return_value": PRUNED.to_dict()}
