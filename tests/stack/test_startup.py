"""Starting parts, with servers that behave as they are told to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hpo_ops.stack import Part, PartFailedError, Phase, Update
from hpo_ops.stack import _startup as startup_module
from hpo_ops.stack._stack_parts import AIRFLOW_PARTS
from hpo_ops.stack._startup import Startup


class Clock:
    """A clock that moves only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.1)


class Servers:
    """Servers that are healthy when a test says so; those that were launched, after a second."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.launched_at: dict[Part, float] = {}
        self.running: set[Part] = set()
        self.hung: set[Part] = set()
        self.dies: set[Part] = set()
        self.ended: list[Part] = []

    def find(self, part: Part) -> Any:
        return part if part in self.running else None

    def healthy(self, parts: Iterable[Part]) -> set[Part]:
        asked = self.running & set(parts)
        if Part.API_SERVER in self.hung or Part.API_SERVER not in self.running:
            asked &= {Part.S3}  # only the api-server knows how the others are doing
        return {
            part
            for part in asked - self.hung
            if self.clock.now > self.launched_at.get(part, -5.0) + 1
        }

    def launch(self, part: Part) -> None:
        self.launched_at[part] = self.clock.now
        if part not in self.dies:
            self.running.add(part)

    def end(self, part: Part) -> None:
        self.ended.append(part)
        self.running.discard(part)
        self.hung.discard(part)

    def failure(self, part: Part, why: str) -> PartFailedError:
        return PartFailedError(part, why=why, log=Path("none"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(startup_module, "time", made)
    return made


def start(servers: Servers) -> tuple[list[PartFailedError], list[Update]]:
    updates: list[Update] = []
    startup = Startup(
        servers,
        AIRFLOW_PARTS,
        started=[],
        progress=updates.append,
        start_seconds=60,
        hang_seconds=10,
    )
    return startup.run(), updates


def phases(updates: list[Update], part: Part) -> list[Phase]:
    return [update.phase for update in updates if update.part is part]


def test_a_part_that_runs_but_does_not_work_is_replaced_alone(clock: Clock) -> None:
    servers = Servers(clock)
    servers.running, servers.hung = set(AIRFLOW_PARTS), {Part.SCHEDULER}
    failures, updates = start(servers)
    assert failures == []
    assert servers.ended == [Part.SCHEDULER]
    assert phases(updates, Part.SCHEDULER) == [Phase.REPLACING, Phase.READY]
    assert phases(updates, Part.TRIGGERER) == [Phase.ALREADY_RUNNING]


def test_parts_are_not_replaced_because_a_hung_api_server_says_nothing(clock: Clock) -> None:
    servers = Servers(clock)
    servers.running, servers.hung = set(AIRFLOW_PARTS), {Part.API_SERVER}
    failures, updates = start(servers)
    assert failures == []
    assert servers.ended == [Part.API_SERVER]
    assert phases(updates, Part.SCHEDULER) == [Phase.ALREADY_RUNNING]


def test_a_part_that_fails_is_stopped_alone_and_the_others_are_waited_for(clock: Clock) -> None:
    servers = Servers(clock)
    servers.dies = {Part.SCHEDULER}
    failures, updates = start(servers)
    assert [failure.part for failure in failures] == [Part.SCHEDULER]
    assert servers.ended == [Part.SCHEDULER]
    assert servers.running == set(AIRFLOW_PARTS) - {Part.SCHEDULER}
    assert phases(updates, Part.TRIGGERER) == [Phase.STARTING, Phase.READY]


def test_a_part_that_is_replaced_in_vain_is_a_failure(clock: Clock) -> None:
    class Hopeless(Servers):
        def end(self, part: Part) -> None:
            super().end(part)
            self.hung.add(part)

    servers = Hopeless(clock)
    servers.running, servers.hung = set(AIRFLOW_PARTS), {Part.TRIGGERER}
    failures, _ = start(servers)
    assert [failure.part for failure in failures] == [Part.TRIGGERER]
    assert "not healthy after 60 s" in str(failures[0])


def test_without_an_api_server_the_start_fails_at_once(clock: Clock) -> None:
    servers = Servers(clock)
    servers.dies = {Part.API_SERVER}
    failures, _ = start(servers)
    assert [failure.part for failure in failures] == [Part.API_SERVER]
    assert clock.now < 5
