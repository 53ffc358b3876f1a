"""Keeps an agent at work while a training runs beside it, and ends a training that does not leave.

For runners whose agent is in the Airflow task: the training may be a process of the worker, a
container, or anything else that can be waited for and be sent a signal.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hpo_ops.agent.termination import KILL_SECONDS, Termination
from hpo_ops.protocol import Control, Provenance, SegmentResult, Workspace
from hpo_ops.runners._log_tail import LogTail

POLL_SECONDS = 0.05


class Companion(Protocol):
    """What accompanies a training while it runs; the agent."""

    @property
    def control(self) -> Control: ...
    def pump(self) -> bool: ...
    def finish(self, exit_code: int | None, *, was_terminated: bool = False) -> SegmentResult: ...


class SegmentRunner(Protocol):
    """Runs the training of one segment."""

    def run(
        self, workspace: Workspace, companion: Companion, *, grace_seconds: float = 30.0
    ) -> SegmentResult:
        """Runs the training in a prepared workspace to its end.

        Args:
            workspace: The directory shared with the training.
            companion: Pumped while the training runs; judges how it ended.
            grace_seconds: Time to leave after a pause, a stop or `terminate`.
        """
        ...

    def provenance(self) -> Provenance:
        """What the training is made from besides its code, such as the digest of its image.

        Called once the training has started.
        """
        ...

    def terminate(self) -> None:
        """Asks a run in progress to save and leave; safe in a signal handler."""
        ...


class TrainingProcess(Protocol):
    """A training that was started."""

    def wait(self, timeout_seconds: float) -> int | None:
        """The exit code, negative for a signal; None if it still runs after the time."""
        ...

    def terminate(self) -> None:
        """Sends SIGTERM to the training, not to its children: it may need them to save."""
        ...

    def kill(self) -> None:
        """Kills the training with all its children."""
        ...

    def close(self) -> None:
        """Ends what still runs, and frees what the training has used."""
        ...


def accompany(
    process: TrainingProcess,
    companion: Companion,
    *,
    log: Path,
    on_line: Callable[[str], None],
    is_cancelled: Callable[[], bool],
    grace_seconds: float,
    kill_seconds: float = KILL_SECONDS,
) -> int:
    """Pumps the agent until the training has ended, closes the process, returns the exit code.

    Args:
        process: The training; gone afterwards, also when this raises.
        companion: The agent. Once it requests anything but to continue, the training has
            `grace_seconds` to leave; then it is sent SIGTERM, and later SIGKILL.
        log: The training's output, a file that exists already.
        on_line: Called with each line of the log while the training runs.
        is_cancelled: Whether the task is to end: the training is sent SIGTERM at once, and
            SIGKILL after `grace_seconds`.
        grace_seconds: Time to leave after a request or a cancellation.
        kill_seconds: Time between SIGTERM and SIGKILL after a request.
    """
    termination = Termination(grace_seconds=grace_seconds, kill_seconds=kill_seconds)
    is_busy = False
    tail = LogTail(log, on_line)
    try:
        while (exit_code := process.wait(0 if is_busy else POLL_SECONDS)) is None:
            is_busy = companion.pump()
            tail.follow()
            now = time.monotonic()
            match termination.due(companion.control, now, is_cancelled=is_cancelled()):
                case signal.SIGTERM:
                    process.terminate()
                case signal.SIGKILL:
                    process.kill()
    finally:
        process.close()
        tail.close()
    return exit_code
