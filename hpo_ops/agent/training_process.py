"""The training in the container beside the agent's: whether it is at work, and how to end it.

``run.sh`` starts it and holds a pipe open as long as it lives, so that a container that was
killed with everything in it is told apart from one that is at work.
"""

from __future__ import annotations

import logging
import os
import signal
import stat

from hpo_ops.protocol import (
    Action,
    Control,
    UnsafeFileError,
    Workspace,
    read_regular,
    write_aside,
)

logger = logging.getLogger(__name__)

KILL_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL for a training that was asked to leave and did not."""
MAX_CODE_BYTES = 16


class ContainerTraining:
    """Watches the training of a pod.

    Args:
        workspace: What it shares with the agent.
        grace_seconds: Time to leave after a pause or a stop.
    """

    def __init__(self, workspace: Workspace, *, grace_seconds: float) -> None:
        self._alive = workspace.root / "alive"
        self._started = workspace.root / "started"
        self._exit_code = workspace.root / "exit_code"
        self._signal = workspace.root / "signal"
        self._told_to_go = workspace.root / "told_to_go"
        self._grace_seconds = grace_seconds
        self._asked_at: float | None = None
        self._signals = ["TERM", "KILL"]

    @property
    def has_started(self) -> bool:
        return self._started.exists()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, with or without a word."""
        return self._exit_code.exists() or (self.has_started and self._is_dead())

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None where it was killed with its container."""
        try:
            return int(read_regular(self._exit_code, at_most=MAX_CODE_BYTES))
        except (OSError, ValueError, UnsafeFileError):
            return None

    @property
    def was_killed(self) -> bool:
        """Whether it was killed, by whom Kubernetes may know."""
        return self.exit_code in (None, 128 + signal.SIGKILL)

    @property
    def was_terminated(self) -> bool:
        """Whether Kubernetes told its pod to go while it was at work."""
        return self._told_to_go.exists()

    def check(self, control: Control, now: float) -> None:
        """Ends a training that was asked to leave and does not: SIGTERM, then SIGKILL."""
        if control.action is Action.CONTINUE:
            self._asked_at = None
        elif self._asked_at is None:
            self._asked_at = now + self._grace_seconds
        elif now >= self._asked_at and self._signals:
            self._asked_at = now + KILL_SECONDS
            try:
                write_aside(self._signal, self._signals.pop(0))
            except OSError as error:
                logger.warning("the training cannot be told to go: %s", error)

    def _is_dead(self) -> bool:
        try:
            pipe = os.open(self._alive, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:  # the training removed or replaced it: no sign of life any more
            return not self._exit_code.exists()
        try:
            if stat.S_ISFIFO(os.fstat(pipe).st_mode):
                os.read(pipe, 1)  # ends at once where nobody has it open any more
        except BlockingIOError:
            return False
        finally:
            os.close(pipe)
        return not self._exit_code.exists()
