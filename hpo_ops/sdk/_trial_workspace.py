"""The context of training code in a trial: accesses the workspace, handles signals and the exit.

The workspace is the directory that the training shares with its agent, the process that forwards
its reports and checkpoints.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType

from hpo_ops.protocol import (
    Assignment,
    Outcome,
    ProtocolError,
    Report,
    SegmentResult,
    Workspace,
    read_control,
    write_atomically,
)
from hpo_ops.sdk._epoch_folders import save_epoch
from hpo_ops.sdk._software_versions import find_software


class TrialContext:
    """The context of training code in a trial: reads and writes files of the workspace.

    Installs a handler of SIGTERM, an exception hook and an exit hook. Forked child processes, such
    as data loaders, inherit them, but only the process that installed them writes the result.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.checkpoints = workspace.checkpoints
        self.assignment = _read_assignment(workspace)
        steps = [step for step in workspace.complete_steps() if step <= self.assignment.from_step]
        self.restored = workspace.checkpoint(steps[-1]) if steps else None
        self._reports = workspace.reports.open("ab", buffering=0)
        self._reported = int(self.restored.name) if self.restored else 0
        self._saved: int | None = None
        self._is_described = False
        self._is_preempted = False
        self._has_ended = False
        self._process = os.getpid()
        self.start_clock()
        self._watch()

    def start_clock(self) -> None:
        """Starts measuring the duration of the next step."""
        self._since = time.monotonic()

    def write(self, step: int, metrics: Mapping[str, float]) -> Report:
        now = time.monotonic()
        report = Report(step=step, metrics=dict(metrics), seconds=now - self._since)
        self._since = now
        self._reports.write(report.to_json().encode() + b"\n")
        self._reported = step
        if not self._is_described:  # everything is imported by the first report
            self._is_described = True
            write_atomically(self._workspace.software, find_software().to_json())
        return report

    @contextmanager
    def checkpoint(self, step: int) -> Iterator[Path]:
        with save_epoch(self.checkpoints, step) as folder:
            yield folder
        self._saved = step

    def is_saved(self, step: int) -> bool:
        return self._saved == step

    def requested_end(self) -> tuple[Outcome, str] | None:
        """Returns the outcome and the reason with which the training must end now, or None.

        A pause or stop that the platform requested has precedence over SIGTERM.
        """
        control = read_control(self._workspace.control)
        if control.action.outcome is not None:
            return control.action.outcome, control.reason
        return (Outcome.PREEMPTED, "SIGTERM") if self._is_preempted else None

    def end(self, outcome: Outcome, step: int, reason: str) -> None:
        self._has_ended = True
        result = SegmentResult(outcome=outcome, step=step, reason=reason)
        write_atomically(self._workspace.result, result.to_json())

    def _watch(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_sigterm)
        self._previous_hook = sys.excepthook
        sys.excepthook = self._on_exception
        atexit.register(self._on_exit)

    def _on_sigterm(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() == self._process:
            self._is_preempted = True
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if os.getpid() == self._process:
            reason = f"{kind.__name__}: {error}".removesuffix(": ")
            self.end(Outcome.FAILED, self._reported, reason)
        self._previous_hook(kind, error, trace)

    def _on_exit(self) -> None:
        if os.getpid() == self._process and not self._has_ended:
            self.end(Outcome.COMPLETED, self._reported, "")


def _read_assignment(workspace: Workspace) -> Assignment:
    try:
        return Assignment.from_json(workspace.assignment.read_bytes())
    except FileNotFoundError as error:
        raise ProtocolError(
            f"{workspace.assignment} does not exist, but HPO_DIR is {workspace.root}"
        ) from error
