"""A trial as a process on this machine."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from hpo_ops.protocol import DIRECTORY_VARIABLE, Action, Control, SegmentResult, Workspace
from hpo_ops.runners.local.child_process import Launch, NotStartedError, Process, start_cold
from hpo_ops.runners.local.log_tail import LogTail
from hpo_ops.runners.local.training_environment import training_environment
from hpo_ops.runners.local.warm_starter import WarmStarter

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
KILL_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL for a process that was asked to leave and did not."""


class Companion(Protocol):
    """What accompanies a training while it runs; the agent."""

    @property
    def control(self) -> Control: ...
    def pump(self) -> bool: ...
    def finish(self, exit_code: int | None) -> SegmentResult: ...


class LocalRunner:
    """Runs one segment as a process group of its own; nothing of it is left afterwards.

    Args:
        command: The training command; ``python`` means the interpreter that runs this.
        code: The folder to run it in.
        environment: The study's variables; nothing secret is passed on otherwise.
        on_line: Called with each line of the log while the training runs.
        warm: Starts plain Python scripts without their import time; None starts all cold.
        kill_seconds: Time between SIGTERM and SIGKILL.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        code: Path,
        *,
        environment: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
        warm: WarmStarter | None = None,
        kill_seconds: float = KILL_SECONDS,
    ) -> None:
        argv = shlex.split(command) if isinstance(command, str) else list(command)
        if not argv:
            raise ValueError("command is empty, but must name a program")
        if argv[0] in ("python", "python3"):
            argv[0] = sys.executable
        self._argv = argv
        self._code = code.resolve()
        self._environment = training_environment(os.environ, environment)
        self._on_line = on_line or (lambda line: logger.info("%s", line))
        self._warm = warm
        self._kill_seconds = kill_seconds
        self._is_cancelled = threading.Event()
        self._process: Process | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the training, which leads its group; None before it is started."""
        return self._process.pid if self._process is not None else None

    def run(
        self, workspace: Workspace, companion: Companion, *, grace_seconds: float = 30.0
    ) -> SegmentResult:
        """Runs the training in a prepared workspace to its end.

        Args:
            workspace: The directory shared with the training.
            companion: Pumped while the training runs; judges how it ended.
            grace_seconds: Time to leave after a pause, a stop or `terminate`.
        """
        with workspace.log.open("ab") as log:
            process = self._process = self._start(workspace, log)
        tail = LogTail(workspace.log, self._on_line)
        patience = _Patience(process, grace_seconds, self._kill_seconds)
        is_busy = False
        try:
            while (exit_code := process.wait(0 if is_busy else POLL_SECONDS)) is None:
                is_busy = companion.pump()
                tail.follow()
                patience.check(companion.control, is_cancelled=self._is_cancelled.is_set())
        finally:
            process.close()
            tail.close()
        return companion.finish(exit_code)

    def terminate(self) -> None:
        """Asks a run in progress to save and leave; safe in a signal handler."""
        self._is_cancelled.set()

    def _start(self, workspace: Workspace, log: BinaryIO) -> Process:
        here = {DIRECTORY_VARIABLE: str(workspace.root.resolve())}
        launch = Launch(argv=self._argv, folder=self._code, environment=self._environment | here)
        if self._warm is not None:
            try:
                return self._warm.start(launch, log)
            except NotStartedError as error:
                logger.info("starts cold: %s", error)
        return start_cold(launch, log)


class _Patience:
    """Ends a process that was asked to leave and does not: SIGTERM, then SIGKILL."""

    def __init__(self, process: Process, grace_seconds: float, kill_seconds: float) -> None:
        self._process = process
        self._grace_seconds = grace_seconds
        self._kill_seconds = kill_seconds
        self._terminate_at: float | None = None
        self._kill_at: float | None = None

    def check(self, control: Control, *, is_cancelled: bool) -> None:
        now = time.monotonic()
        if self._kill_at is not None:
            if now >= self._kill_at:
                self._process.kill()
        elif is_cancelled:
            self._process.terminate()
            self._kill_at = now + self._grace_seconds
        elif control.action is Action.CONTINUE:
            self._terminate_at = None
        elif self._terminate_at is None:
            self._terminate_at = now + self._grace_seconds
        elif now >= self._terminate_at:
            self._process.terminate()
            self._kill_at = now + self._kill_seconds
