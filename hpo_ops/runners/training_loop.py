"""Runs an agent's loop while a training runs, and kills a training that does not exit in time.

This module is for runners whose agent is part of the Airflow task. The training may be a process
of the worker, a container, or anything else that can be waited for and be sent signals.
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
    """The methods of an agent that a runner calls while the agent's training runs."""

    @property
    def control(self) -> Control: ...
    def pump(self) -> bool: ...
    def finish(self, exit_code: int | None, *, was_terminated: bool = False) -> SegmentResult: ...


class SegmentRunner(Protocol):
    """Runs the training of one segment (one uninterrupted execution of a trial)."""

    def run(
        self, workspace: Workspace, companion: Companion, *, grace_seconds: float = 30.0
    ) -> SegmentResult:
        """Runs the training in a prepared workspace, and returns how the training ended.

        Args:
            workspace: The directory shared with the training.
            companion: The agent. Its `pump` is called repeatedly while the training runs, and its
                `finish` judges how the training ended.
            grace_seconds: Time for the training to exit after a pause, a stop or `terminate`.
        """
        ...

    def provenance(self) -> Provenance:
        """Returns the training's provenance except for its code, such as the image's digest.

        The agent calls this method after the training has started.
        """
        ...

    def terminate(self) -> None:
        """Requests that the training save and exit; may be called in a signal handler."""
        ...


class TrainingProcess(Protocol):
    """A training that was started, as a process or a container."""

    def wait(self, timeout_seconds: float) -> int | None:
        """Waits for the end of the training.

        Returns:
            The exit code (negative if a signal ended a process); None if the training still runs
            after the timeout.
        """
        ...

    def terminate(self) -> None:
        """Sends SIGTERM only to the training's main process; its children may help to save."""
        ...

    def kill(self) -> None:
        """Kills the training with all its children."""
        ...

    def close(self) -> None:
        """Kills the training if it still runs; closes its connection or removes its container."""
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
    """Calls the agent's `pump` until the training has ended, and returns the training's exit code.

    Args:
        process: The training; it is closed before this function returns or raises.
        companion: The agent. Once the agent has received the decision to pause or stop the
            training, the training has `grace_seconds` to exit; then it receives SIGTERM, and
            `kill_seconds` later SIGKILL.
        log: The file with the training's output; it must exist.
        on_line: Called with each line of the log while the training runs.
        is_cancelled: Returns whether the Airflow task must end; then the training receives
            SIGTERM at once, and SIGKILL after `grace_seconds`.
        grace_seconds: Time for the training to exit after a pause, a stop or a cancellation.
        kill_seconds: Time between SIGTERM and SIGKILL after a pause or a stop.
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
