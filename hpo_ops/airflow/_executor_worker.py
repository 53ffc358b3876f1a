"""Starts, runs and ends the worker processes of the executor.

A worker runs workloads: Airflow's term for a task instance, a callback or a connection test.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from airflow.executors.base_executor import BaseExecutor

if TYPE_CHECKING:
    from airflow.executors.workloads import ExecutorWorkload

TITLE = "airflow worker -- WorkerPipeExecutor:"
"""Prefix of the process titles of workers."""

_PR_SET_PDEATHSIG = 1
_LONGEST_ERROR = 500
"""Maximum length of the error text that a worker sends.

Short messages are written to a pipe atomically.
"""


@dataclass
class Worker:
    """The scheduler's record of one worker process.

    Attributes:
        process: The worker process.
        pipe: The scheduler's end of the pipe to the worker; None after the pipe was closed.
        workload: The workload that was sent to the worker and has not ended; None if the
            worker is idle.
        given_at: Monotonic time at which the workload was sent.
        has_begun: Whether the worker has confirmed that it has begun the workload.
    """

    process: BaseProcess
    pipe: Connection | None
    workload: ExecutorWorkload | None = None
    given_at: float = 0.0
    has_begun: bool = False


def fork_worker(*, foreign: Sequence[Connection | None], server: str) -> Worker:
    """Starts a worker process that waits for its first workload.

    Args:
        foreign: Pipe ends that belong to the scheduler: the worker inherits them by the fork and
            closes them.
        server: URL of Airflow's execution API.
    """
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_work, args=(there, [here, *foreign], server)
    )
    process.start()
    there.close()
    return Worker(process, here)


def close_worker(worker: Worker) -> None:
    """Closes the pipe to a worker, so that the worker exits as soon as it is idle."""
    if worker.pipe is not None:
        worker.pipe.close()
        worker.pipe = None


def signal_worker(worker: Worker, number: signal.Signals) -> None:
    """Sends a signal to a worker that is alive.

    A dead worker gets no signal, because its process id may belong to another process by now.
    """
    if worker.process.is_alive() and worker.process.pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.process.pid, number)


def _work(pipe: Connection, foreign: Sequence[Connection | None], server: str) -> None:
    """Runs the workloads received from `pipe` until the scheduler closes its end of the pipe.

    This is the main function of a worker process.
    """
    # Ctrl-C is for the scheduler, which lets tasks finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The reader of a pipe sees its end only when no process holds the other end any more.
    for end in foreign:
        if end is not None:
            end.close()
    _kill_children_with(os.getpid())
    _set_title("<idle>")
    with contextlib.suppress(EOFError, OSError):
        while True:
            workload: ExecutorWorkload = pipe.recv()
            pipe.send(None)
            pipe.send(_run(workload, server))
            _set_title("<idle>")


def _run(workload: ExecutorWorkload, server: str) -> tuple[bool, str | None]:
    try:
        BaseExecutor.run_workload(
            workload,
            server=server,
            proctitle=f"{TITLE} {workload.display_name}",
            subprocess_logs_to_stdout=True,
        )
    except Exception as error:  # noqa: BLE001 - whatever a task raises is its result
        BaseExecutor.logger().exception("The workload %s failed.", workload.display_name)
        return False, f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
    return True, None


def _kill_children_with(worker: int) -> None:
    """Makes the kernel kill processes that the worker forks when the worker dies (Linux only).

    Args:
        worker: Process id of the worker.
    """
    if sys.platform != "linux":
        return
    prctl = ctypes.CDLL(None).prctl

    def follow() -> None:
        if os.getppid() == worker:  # not for what the task itself starts
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    os.register_at_fork(after_in_child=follow)


def _set_title(state: str) -> None:
    if sys.platform == "linux":
        from setproctitle import setproctitle

        setproctitle(f"{TITLE} {state}")
