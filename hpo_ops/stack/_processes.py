"""Starts processes that outlive the command that started them, finds them again, and stops them.

A process is identified by its pid and start time, so that another process with a reused pid is
never signalled. Every process of a stack has the stack's id in its environment, and can be found
by that id even if its parent has died or it has started its own session.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from hpo_ops.stack.stack_files import write_private

STACK_ID = "HPO_STACK_ID"
STACK_PART = "HPO_STACK_PART"

# Tolerance: the system clock may be corrected between two readings of a start time.
_SAME_START_SECONDS = 2.0


@dataclass(frozen=True)
class ProcessRecord:
    """A process as recorded in a pid file: its pid and start time."""

    pid: int
    started: float

    @classmethod
    def of(cls, process: psutil.Process) -> ProcessRecord:
        return cls(pid=process.pid, started=process.create_time())

    @classmethod
    def read(cls, path: Path) -> ProcessRecord | None:
        """Reads a pid file; returns None if the file is missing or invalid."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls(pid=int(content["pid"]), started=float(content["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        write_private(path, json.dumps({"pid": self.pid, "started": self.started}) + "\n")

    def find(self) -> psutil.Process | None:
        """Returns the recorded process, or None if it has ended (even if its pid was reused)."""
        _reap(self.pid)
        try:
            process = psutil.Process(self.pid)
            if abs(process.create_time() - self.started) > _SAME_START_SECONDS:
                return None
            return None if process.status() == psutil.STATUS_ZOMBIE else process
        except psutil.NoSuchProcess:
            return None

    def wait(self) -> int:
        """Waits until the process ends, and returns its exit code.

        The process must have been started with `spawn` by this Python process.
        """
        return _children[self.pid].wait()


def spawn(
    command: Sequence[str], *, environment: Mapping[str, str], cwd: Path, log: Path
) -> ProcessRecord:
    """Starts a process in its own session; appends its output to the file `log`."""
    with log.open("ab") as output:
        child = subprocess.Popen(  # noqa: S603  parts of the stack
            list(command),
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[child.pid] = child
    return ProcessRecord.of(psutil.Process(child.pid))


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """Returns the live child processes of a process, and their children recursively."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def find_marked(stack_id: str, *, part: str | None = None) -> list[psutil.Process]:
    """Finds the live processes of a stack by the stack's id in their environment.

    This process and its parents are left out.

    Args:
        stack_id: The id of the stack.
        part: The service whose processes to find; None for all services.
    """
    found = []
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter():
        if process.pid in own:
            continue
        try:
            environment = process.environ()
            is_alive = process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            continue
        is_ours = environment.get(STACK_ID) == stack_id
        if is_alive and is_ours and part in (None, environment.get(STACK_PART)):
            found.append(process)
    return found


def terminate(processes: Iterable[psutil.Process], *, grace_seconds: float) -> None:
    """Sends SIGTERM to processes, and kills those that are alive after `grace_seconds`."""
    waiting = _signal(processes, signal.SIGTERM)
    _signal(waiting, signal.SIGCONT)  # a stopped process handles SIGTERM only once continued
    kill_all(_wait_gone(waiting, grace_seconds))


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """Sends SIGKILL to processes, and waits up to 10 seconds until they have ended."""
    _wait_gone(_signal(processes, signal.SIGKILL), 10.0)


def find_stopped(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Returns the processes that were stopped by a signal and have not been continued."""
    stopped = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.status() == psutil.STATUS_STOPPED:
                stopped.append(process)
    return stopped


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> list[psutil.Process]:
    signalled = []
    for process in processes:
        # psutil compares the start time first, so that this cannot hit a reused pid.
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(number)
            signalled.append(process)
    return signalled


def _wait_gone(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    deadline = time.monotonic() + seconds
    while True:
        processes = [process for process in processes if not _is_gone(process)]
        if not processes or time.monotonic() > deadline:
            return processes
        time.sleep(0.05)


def _is_gone(process: psutil.Process) -> bool:
    _reap(process.pid)
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


_children: dict[int, subprocess.Popen[bytes]] = {}


def _reap(pid: int) -> None:
    """Reaps a child process if it has ended, so that it does not remain a zombie."""
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]
