"""The executor of the stack, with real worker processes that are killed and stopped."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from airflow.executors.base_executor import BaseExecutor
from airflow.executors.executor_loader import ExecutorLoader
from airflow.executors.executor_utils import ExecutorName
from airflow.models.taskinstancekey import TaskInstanceKey
from airflow.utils.state import TaskInstanceState

from hpo_ops.stack._airflow_environment import EXECUTOR

KILLS = int(os.environ.get("HPO_KILLS", "60"))
WORKERS = 3


@dataclass(frozen=True)
class Task:
    """What an executor asks of a workload, without Airflow behind it."""

    number: int
    seconds: float
    notes: Path

    running_state = None
    success_state = TaskInstanceState.SUCCESS
    failure_state = TaskInstanceState.FAILED
    ti = SimpleNamespace(priority_weight=1)

    @property
    def key(self) -> TaskInstanceKey:
        return TaskInstanceKey("study", "trial", "run", 1, self.number)

    @property
    def display_name(self) -> str:
        return str(self.number)


def run_task(task: Task, **_: Any) -> int:
    """What a worker does with a task: notes its number, and has a process for it."""
    child = os.fork()
    if child == 0:
        with task.notes.open("a") as notes:
            notes.write(f"{task.number} {os.getpid()}\n")
        time.sleep(task.seconds)
        os._exit(0)
    os.waitpid(child, 0)
    return 0


class Bench:
    """An executor that is driven as Airflow's scheduler does, and what it has reported."""

    def __init__(self, folder: Path) -> None:
        found, _ = ExecutorLoader.import_executor_cls(ExecutorName(module_path=EXECUTOR))
        self.executor: Any = found(parallelism=WORKERS)
        self.notes = folder / "notes"
        self.notes.touch()
        self.events: list[tuple[int, str]] = []
        self.executor.start()

    def queue(self, numbers: range, seconds: float = 0.0) -> None:
        for number in numbers:
            task = Task(number, seconds, self.notes)
            self.executor.queued_tasks[task.key] = task

    def heartbeat(self) -> None:
        self.executor.heartbeat()
        for key, (state, _) in self.executor.get_event_buffer().items():
            self.events.append((key.map_index, str(state)))

    def wait_for(self, question: Callable[[], Any], seconds: float = 20.0) -> None:
        give_up_at = time.monotonic() + seconds
        while not question():
            assert time.monotonic() < give_up_at, "waited in vain"
            self.heartbeat()
            time.sleep(0.005)

    def wait_for_events(self, count: int, seconds: float = 20.0) -> None:
        self.wait_for(lambda: len(self.events) >= count, seconds)

    def begun(self) -> list[tuple[int, int]]:
        """The number and the process of each task that ran."""
        lines = self.notes.read_text(encoding="utf-8").splitlines()
        return [(int(number), int(pid)) for number, pid in (line.split() for line in lines)]

    def workers(self) -> list[psutil.Process]:
        return [
            child
            for child in psutil.Process().children()
            if child.status() != psutil.STATUS_ZOMBIE
        ]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(BaseExecutor, "run_workload", staticmethod(run_task))
    made = Bench(tmp_path)
    yield made
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    ender = threading.Thread(target=made.executor.terminate, daemon=True)
    ender.start()
    ender.join(15)


def ended_within(seconds: float, end: Callable[[], None]) -> bool:
    thread = threading.Thread(target=end, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def test_tasks_keep_flowing_when_idle_workers_are_killed(bench: Bench) -> None:
    for number, worker in enumerate(bench.workers()):
        worker.kill()
        bench.queue(range(number, number + 1))
        bench.wait_for_events(number + 1, seconds=10)
    assert bench.events == [(number, "success") for number in range(WORKERS)]


def test_workers_killed_at_any_moment_lose_and_double_no_task(bench: Bench) -> None:
    chance = random.Random(14)  # noqa: S311
    killed, queued = 0, 0
    while killed < KILLS:
        if len(bench.executor.queued_tasks) < WORKERS:
            bench.queue(range(queued, queued + WORKERS), seconds=0.01)
            queued += WORKERS
        bench.heartbeat()
        time.sleep(chance.uniform(0, 0.02))
        if workers := bench.workers():
            chance.choice(workers).kill()
            killed += 1
    bench.wait_for_events(queued, seconds=60)
    for _ in range(10):
        bench.heartbeat()
    reports = Counter(number for number, _ in bench.events)
    assert reports == Counter(range(queued)), "each task is reported once"
    assert all(count == 1 for count in Counter(number for number, _ in bench.begun()).values())
    succeeded = {number for number, state in bench.events if state == "success"}
    assert succeeded <= {number for number, _ in bench.begun()}
    assert len(succeeded) >= queued - killed
    assert len(bench.workers()) == WORKERS
    assert bench.executor.slots_occupied == 0


def test_a_killed_worker_takes_its_task_along_and_the_task_is_reported_failed(
    bench: Bench,
) -> None:
    bench.queue(range(1), seconds=60)
    bench.wait_for(bench.begun)
    ((_, pid),) = bench.begun()
    process = psutil.Process(pid)
    process.parent().kill()
    bench.wait_for_events(1)
    assert bench.events == [(0, "failed")]
    bench.wait_for(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def test_a_stopped_worker_that_has_not_begun_its_task_is_replaced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(bench.executor), "BEGIN_SECONDS", 0.3, raising=False)
    for worker in bench.workers():
        worker.suspend()
    bench.queue(range(4))
    bench.wait_for_events(4, seconds=10)
    assert sorted(bench.events) == [(number, "success") for number in range(4)]
    assert sorted(number for number, _ in bench.begun()) == list(range(4))


def test_a_worker_is_not_replaced_because_the_scheduler_was_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(bench.executor), "BEGIN_SECONDS", 0.3)
    bench.queue(range(WORKERS), seconds=1.5)
    bench.heartbeat()
    with bench.executor._lock:  # nothing is received meanwhile
        while len(bench.begun()) < WORKERS:
            time.sleep(0.05)
        time.sleep(0.4)
    bench.wait_for_events(WORKERS)
    assert sorted(bench.events) == [(number, "success") for number in range(WORKERS)]


def test_the_end_comes_although_workers_are_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("END_SECONDS", "TERM_SECONDS"):
        monkeypatch.setattr(type(bench.executor), name, 0.3, raising=False)
    bench.queue(range(1), seconds=60)
    bench.wait_for(bench.begun)
    for worker in bench.workers():
        worker.suspend()
    assert ended_within(10, bench.executor.end)
    assert bench.workers() == []


def test_the_end_lets_a_running_task_finish(bench: Bench) -> None:
    bench.queue(range(1), seconds=0.5)
    bench.wait_for(bench.begun)
    assert ended_within(10, bench.executor.end)
    bench.events += [
        (key.map_index, str(state))
        for key, (state, _) in bench.executor.get_event_buffer().items()
    ]
    assert bench.events == [(0, "success")]
    assert bench.workers() == []


def test_a_task_that_the_scheduler_has_given_up_is_killed(bench: Bench) -> None:
    bench.queue(range(1), seconds=60)
    bench.wait_for(bench.begun)
    ((_, pid),) = bench.begun()
    process = psutil.Process(pid)
    process.parent().suspend()
    bench.executor.change_state(Task(0, 60, bench.notes).key, TaskInstanceState.FAILED)
    bench.wait_for(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    bench.wait_for(lambda: len(bench.workers()) == WORKERS)
    assert bench.events == [(0, "failed")]


def test_a_revoked_task_gives_its_slot_back_and_is_not_reported(bench: Bench) -> None:
    long = WORKERS + 2
    bench.queue(range(long), seconds=60)
    bench.wait_for(lambda: len(bench.begun()) == WORKERS)
    for number in range(long):
        lost = SimpleNamespace(key=Task(number, 60, bench.notes).key, id="an id")
        for _ in range(2):
            bench.executor.revoke_task(ti=lost)
        assert not bench.executor.has_task(lost)
    bench.wait_for(lambda: len(bench.workers()) == WORKERS)
    assert bench.executor.slots_available == WORKERS
    assert bench.executor.slots_occupied == 0
    assert bench.events == []


def test_workloads_are_accepted_in_advance_only_while_tasks_are_short(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.queue(range(2))
    bench.wait_for_events(2)
    assert bench.executor.slots_available == WORKERS + 2
    monkeypatch.setattr(type(bench.executor), "RECENT_SECONDS", 0.0)
    assert bench.executor.slots_available == WORKERS
    bench.queue(range(10, 20), seconds=60)
    bench.wait_for(lambda: len(bench.begun()) == 2 + WORKERS)
    assert bench.executor.slots_available <= 0
    assert len(bench.executor.running) == WORKERS


def test_a_worker_leaves_when_the_scheduler_is_gone(bench: Bench) -> None:
    workers = bench.workers()
    # As when the scheduler is killed: its ends of the pipes are closed.
    with bench.executor._lock:
        for worker in bench.executor._workers:
            worker.pipe.close()
            worker.pipe = None
    bench.wait_for(lambda: not any(worker.is_running() for worker in workers))
    assert not set(workers) & set(bench.workers())


def test_a_task_may_have_processes_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that a task starts from a thread outlives that thread."""

    def run(task: Task, **_: Any) -> int:
        child = os.fork()
        if child == 0:
            pids: list[int] = []

            def start() -> None:
                pids.append(os.fork())
                if pids[-1] == 0:
                    time.sleep(0.3)
                    os._exit(7)

            thread = threading.Thread(target=start)
            thread.start()
            thread.join()
            _, status = os.waitpid(pids[0], 0)
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
        _, status = os.waitpid(child, 0)
        task.notes.write_text(f"{os.waitstatus_to_exitcode(status)} 0\n", encoding="utf-8")
        return 0

    monkeypatch.setattr(BaseExecutor, "run_workload", staticmethod(run))
    bench = Bench(tmp_path)
    bench.queue(range(1))
    bench.wait_for_events(1)
    assert ended_within(10, bench.executor.terminate)
    assert bench.begun() == [(7, 0)]


def test_signals_of_a_stop_end_an_idle_worker(bench: Bench) -> None:
    worker = bench.workers()[0]
    worker.send_signal(signal.SIGTERM)
    bench.wait_for(lambda: not worker.is_running())
    bench.wait_for(lambda: len(bench.workers()) == WORKERS)
    assert worker not in bench.workers()
