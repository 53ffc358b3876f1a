"""The training in the container beside the agent's: whether it runs, how it ended, its signals.

``run.sh`` starts the training and keeps a pipe open as long as it lives, so that the agent can
tell a container that was killed as a whole from one that still runs.
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
    """The training of a pod, as its agent sees it through the shared workspace.

    Args:
        workspace: The directory shared with the training.
        grace_seconds: Time to leave after a requested pause or stop.
    """

    def __init__(self, workspace: Workspace, *, grace_seconds: float) -> None:
        self._workspace = workspace
        self._termination = Termination(grace_seconds=grace_seconds)

    @property
    def has_started(self) -> bool:
        return self._workspace.started.exists()

    @property
    def has_ended(self) -> bool:
        """Whether the training has ended, with an exit code or killed with its container."""
        return self._workspace.exit_code.exists() or (self.has_started and self._is_dead())

    @property
    def exit_code(self) -> int | None:
        """The training's exit code; None if it was killed with its container."""
        try:
            return int(read_regular(self._workspace.exit_code, at_most=MAX_CODE_BYTES))
        except (OSError, ValueError, UnsafeFileError):
            return None

    @property
    def was_killed(self) -> bool:
        """Whether SIGKILL ended the training; Kubernetes may know who sent it."""
        return self.exit_code in (None, 128 + signal.SIGKILL)

    @property
    def was_terminated(self) -> bool:
        """Whether Kubernetes sent SIGTERM to the container during the training."""
        return self._workspace.terminated.exists()

    def check(self, control: Control, now: float) -> None:
        """Sends the signal that is due to a training that does not do what is requested."""
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
        except OSError:  # the training removed or replaced it, so nothing shows that it is alive
            return not self._workspace.exit_code.exists()
        try:
            if stat.S_ISFIFO(os.fstat(pipe).st_mode):
                os.read(pipe, 1)  # ends at once if no process has it open any more
        except BlockingIOError:
            return False
        finally:
            os.close(pipe)
        return not self._workspace.exit_code.exists()
