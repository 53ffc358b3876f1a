"""Watches and signals a training that runs in another container of the agent's pod.

``run.sh`` starts the training and keeps a named pipe open while the training's container runs.
The agent reads the pipe to detect that the whole container was killed.
"""

from __future__ import annotations

import logging
import os
import signal
import stat

from hpo_ops.agent.termination import Termination
from hpo_ops.protocol import Control, UnsafeFileError, Workspace, read_regular, write_atomically

logger = logging.getLogger(__name__)

MAX_CODE_BYTES = 16


class ContainerTraining:
    """The training of a pod, observed and signalled through files in the shared workspace.

    Args:
        workspace: The directory shared with the training.
        grace_seconds: Time that the training has to exit after a pause or stop was requested.
    """

    def __init__(self, workspace: Workspace, *, grace_seconds: float) -> None:
        self._workspace = workspace
        self._termination = Termination(grace_seconds=grace_seconds)

    @property
    def has_started(self) -> bool:
        return self._workspace.started.exists()

    @property
    def has_ended(self) -> bool:
        """Whether the training has exited, or was killed together with its container."""
        return self._workspace.exit_code.exists() or (self.has_started and self._is_dead())

    @property
    def exit_code(self) -> int | None:
        """The training's exit code; None if no valid exit code was written.

        A training that is killed together with its container writes no exit code.
        """
        try:
            return int(read_regular(self._workspace.exit_code, at_most=MAX_CODE_BYTES))
        except (OSError, ValueError, UnsafeFileError):
            return None

    @property
    def was_killed(self) -> bool:
        """Whether the training was ended by SIGKILL, or has no exit code."""
        return self.exit_code in (None, 128 + signal.SIGKILL)

    @property
    def was_terminated(self) -> bool:
        """Whether Kubernetes sent SIGTERM to the container during the training."""
        return self._workspace.terminated.exists()

    def check(self, control: Control, now: float) -> None:
        """Sends a signal if the training has not exited in time after a requested pause or stop.

        ``run.sh`` sends the signal; this method writes its name to the workspace.

        Args:
            control: The action that is currently requested of the training.
            now: Monotonic time in seconds.
        """
        number = self._termination.due(control, now)
        if number is None:
            return
        try:
            write_atomically(self._workspace.signal, number.name.removeprefix("SIG"))
        except OSError as error:
            logger.warning("cannot send %s to the training: %s", number.name, error)

    def _is_dead(self) -> bool:
        try:
            pipe = os.open(self._workspace.alive, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:  # the training removed or replaced the pipe: it counts as dead
            return not self._workspace.exit_code.exists()
        try:
            if stat.S_ISFIFO(os.fstat(pipe).st_mode):
                os.read(pipe, 1)  # returns at once if no process has the pipe open for writing
        except BlockingIOError:
            return False
        finally:
            os.close(pipe)
        return not self._workspace.exit_code.exists()
