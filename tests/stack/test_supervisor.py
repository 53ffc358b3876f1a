"""When a part is started again, and how long the supervisor waits before it tries once more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from hpo_ops.stack import Part, StackError
from hpo_ops.stack import _supervisor as supervisor_module
from hpo_ops.stack._processes import ProcessRecord
from hpo_ops.stack._supervisor import CALM_SECONDS, LONGEST_DELAY_SECONDS, Supervisor, Watch


def a_watch() -> Watch:
    return Watch(start_seconds=60, hang_seconds=10)


def judge(watch: Watch, now: float, *, runs: bool = True, healthy: bool = False) -> str | None:
    return watch.judge(is_running=runs, is_healthy=healthy, is_known=True, now=now)


def test_a_part_that_ends_is_started_again_at_once() -> None:
    watch = a_watch()
    assert judge(watch, 1.0, healthy=True) is None
    assert judge(watch, 2.0, runs=False) == "its process exited"


def test_a_part_that_was_healthy_may_be_unhealthy_for_a_while() -> None:
    watch = a_watch()
    judge(watch, 1.0, healthy=True)
    assert judge(watch, 2.0) is None
    assert judge(watch, 11.9) is None
    assert judge(watch, 12.0) == "not healthy for 10 s"


def test_a_part_that_has_just_been_started_may_take_longer() -> None:
    watch = a_watch()
    watch.restarted(0.0)
    assert judge(watch, 1.0) is None
    assert judge(watch, 60.0) is None
    assert judge(watch, 61.0) == "not healthy for 60 s"


def test_a_part_whose_health_is_not_known_is_not_judged() -> None:
    watch = a_watch()
    for now in (1.0, 100.0):
        assert watch.judge(is_running=True, is_healthy=False, is_known=False, now=now) is None
    assert judge(watch, 101.0) is None
    assert judge(watch, 111.0) is not None


def test_a_part_that_keeps_dying_is_started_less_and_less_often() -> None:
    watch, now, starts = a_watch(), 0.0, list[float]()
    while now < 300:
        if judge(watch, now, runs=False):
            starts.append(now)
            watch.restarted(now)
        now += 0.5
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps[:5] == [1, 2, 4, 8, 16]
    assert max(gaps) == LONGEST_DELAY_SECONDS
    judge(watch, now, healthy=True)
    judge(watch, now + CALM_SECONDS, healthy=True)
    assert watch.restarts == 0


class Servers:
    """Servers of which one is dead; another command takes over after it has been started."""

    def __init__(self, record: Path, *, launch_fails: bool = False) -> None:
        self.record = record
        self.dead = {Part.TRIGGERER}
        self.launched: list[Part] = []
        self.launch_fails = launch_fails

    def find(self, part: Part) -> Any:
        return None if part in self.dead else part

    def healthy(self, parts: Iterable[Part]) -> set[Part]:
        return set(parts) - self.dead

    def processes(self) -> list[psutil.Process]:
        return []

    def end(self, part: Part) -> None:
        pass

    def launch(self, part: Part) -> None:
        self.launched.append(part)
        self.record.unlink()
        if self.launch_fails:
            raise StackError("no room left")


def supervise(servers: Servers, record: Path) -> list[str]:
    said: list[str] = []
    supervisor = Supervisor(
        servers,
        said.append,
        lock=contextlib.nullcontext,
        record=record,
        start_seconds=60,
        hang_seconds=10,
    )
    thread = threading.Thread(target=supervisor.run, args=(threading.Event(),), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    return said


@pytest.mark.parametrize("launch_fails", [False, True])
def test_the_supervisor_leaves_when_another_command_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launch_fails: bool
) -> None:
    monkeypatch.setattr(supervisor_module, "POLL_SECONDS", 0.01)
    record = tmp_path / "supervisor.json"
    servers = Servers(record, launch_fails=launch_fails)
    said = supervise(servers, record)
    assert servers.launched == [Part.TRIGGERER]
    assert said[0] == "triggerer: its process exited; restarting it"
    assert ("no room left" in said) == launch_fails


def test_the_supervisor_names_itself_and_takes_its_name_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "POLL_SECONDS", 0.01)
    record, is_over = tmp_path / "supervisor.json", threading.Event()
    seen: list[ProcessRecord | None] = []

    class Healthy(Servers):
        def healthy(self, parts: Iterable[Part]) -> set[Part]:
            seen.append(ProcessRecord.read(record))
            is_over.set()
            return set(parts)

    supervisor = Supervisor(
        Healthy(record),
        lambda _: None,
        lock=contextlib.nullcontext,
        record=record,
        start_seconds=60,
        hang_seconds=10,
    )
    supervisor.run(is_over)
    assert seen == [ProcessRecord.of(psutil.Process())]
    assert not record.exists()
