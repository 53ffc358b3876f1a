"""Runs the training of a segment (one uninterrupted execution of a trial) as a local process."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from hpo_ops.agent.termination import KILL_SECONDS
from hpo_ops.protocol import DIRECTORY_VARIABLE, Provenance, SegmentResult, Workspace
from hpo_ops.runners.local._child_process import Launch, NotStartedError, Process, start_cold
from hpo_ops.runners.local._training_environment import training_environment
from hpo_ops.runners.local._warm_starter import WarmStarter
from hpo_ops.runners.training_loop import Companion, accompany

logger = logging.getLogger(__name__)


class ProcessRunner:
    """Runs the training of one segment as a process group, and kills the group afterwards.

    Args:
        command: The training command; ``python`` means the current interpreter.
        code: The working directory of the command.
        environment: The study's environment variables; of the worker's own variables, only those
            known to be harmless are added.
        on_line: Called with each line of the log while the training runs.
        warm: Starts plain Python scripts with preloaded imports; None if no imports are preloaded.
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
        """Process id of the training, the leader of its process group; None before the start."""
        return self._process.pid if self._process is not None else None

    def run(
        self, workspace: Workspace, companion: Companion, *, grace_seconds: float = 30.0
    ) -> SegmentResult:
        with workspace.log.open("ab") as log:
            process = self._process = self._start(workspace, log)
        exit_code = accompany(
            process,
            companion,
            log=workspace.log,
            on_line=self._on_line,
            is_cancelled=self._is_cancelled.is_set,
            grace_seconds=grace_seconds,
            kill_seconds=self._kill_seconds,
        )
        return companion.finish(exit_code)

    def provenance(self) -> Provenance:
        return Provenance()

    def terminate(self) -> None:
        self._is_cancelled.set()

    def _start(self, workspace: Workspace, log: BinaryIO) -> Process:
        here = {DIRECTORY_VARIABLE: str(workspace.root.resolve())}
        launch = Launch(argv=self._argv, folder=self._code, environment=self._environment | here)
        if self._warm is not None:
            try:
                return self._warm.start(launch, log)
            except NotStartedError as error:
                logger.info("starts without preloaded imports: %s", error)
        return start_cold(launch, log)
