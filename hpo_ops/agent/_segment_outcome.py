"""Determines how a segment (one uninterrupted execution of a trial) ended.

The result depends on the training's own result file, its exit code and the requested action.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from hpo_ops.protocol import (
    Assignment,
    Cause,
    Control,
    Outcome,
    ProtocolError,
    SegmentResult,
    UnsafeFileError,
    open_regular,
    read_regular,
)

PREEMPTING = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals that come from outside the training; any other signal is an error of the training."""
MAX_RESULT_BYTES = 1 << 20
LOG_TAIL_BYTES = 4096
LINE_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class TrainingEnd:
    """The facts from which the result of an ended training is determined.

    Attributes:
        exit_code: Exit code of the process, negative for a signal; None if unknown.
        said: The result that the training wrote to ``result.json``; None if there is no file.
        control: The action that was last requested of the training.
        assignment: The segment's assignment.
        step: The last step with a valid report; without reports, the segment's first step.
        has_reports: Whether the segment has had a valid report.
        last_line: The last line of the training's log.
        was_terminated: Whether the platform sent SIGTERM to the container during the training.
    """

    exit_code: int | None
    said: SegmentResult | None
    control: Control
    assignment: Assignment
    step: int
    has_reports: bool
    last_line: str = ""
    was_terminated: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether a training that received SIGTERM had nevertheless completed.

        A training that saves a checkpoint on SIGTERM may exit with code 0, and the SDK then
        writes the outcome "completed". So if the assignment has a last step, the training must
        have reached that step.
        """
        said, last = self.said, self.assignment.until_step
        if self.exit_code != 0 or (said is not None and said.outcome is not Outcome.COMPLETED):
            return False
        return said is not None if last is None else self.step >= last


Judgement = tuple[Outcome, Cause, str]


def judge(end: TrainingEnd) -> SegmentResult:
    """Determines the result of a segment from the facts about its training's end."""
    outcome, cause, reason = _judge(end)
    return SegmentResult(
        outcome=outcome, cause=cause, reason=reason, step=end.step, exit_code=end.exit_code
    )


def _judge(end: TrainingEnd) -> Judgement:
    said, requested = end.said, end.control.action.outcome
    if end.was_terminated and requested is None and not end.is_finished:
        return Outcome.PREEMPTED, Cause.EVICTED, "the platform terminated its container"
    if said is not None and said.outcome is Outcome.FAILED:
        return Outcome.FAILED, _cause_said(said), said.reason
    if (number := _signal_number(end.exit_code)) is not None:
        return _after_signal(number, end)
    if end.exit_code:
        reason = f"exit code {end.exit_code}"
        reason = f"{reason}: {end.last_line}" if end.last_line else reason
        return Outcome.FAILED, Cause.TRAINING_ERROR, reason
    if said is not None and said.outcome is not Outcome.COMPLETED:
        return said.outcome, _cause_said(said), said.reason
    if said is None and end.exit_code is None:
        reason = "the training left neither a result nor an exit code"
        return Outcome.FAILED, Cause.TRAINING_ERROR, reason
    if said is None and requested is not None and end.step != end.assignment.until_step:
        return requested, Cause.REQUESTED, end.control.reason
    if not end.has_reports and end.step == 0:
        names = ", ".join(end.assignment.metrics)
        reason = f"the training ended without reporting {names}"
        return Outcome.FAILED, Cause.INVALID_REPORT, reason
    return Outcome.COMPLETED, Cause.FINISHED, said.reason if said is not None else ""


def _after_signal(number: int, end: TrainingEnd) -> Judgement:
    reason = f"killed by signal {number}"
    if number not in PREEMPTING:
        return Outcome.FAILED, Cause.TRAINING_ERROR, reason
    if end.said is not None:
        return end.said.outcome, _cause_said(end.said), end.said.reason
    if (requested := end.control.action.outcome) is not None:
        return requested, Cause.REQUESTED, f"{end.control.reason} ({reason})"
    return Outcome.PREEMPTED, Cause.KILLED, reason


def _cause_said(said: SegmentResult) -> Cause:
    """Returns the cause that corresponds to the outcome in the training's own result file."""
    match said.outcome:
        case Outcome.COMPLETED:
            return Cause.FINISHED
        case Outcome.PAUSED | Outcome.STOPPED:
            return Cause.REQUESTED
        case Outcome.PREEMPTED:
            return Cause.KILLED
        case Outcome.FAILED:
            is_invalid = said.cause is Cause.INVALID_REPORT
            return Cause.INVALID_REPORT if is_invalid else Cause.TRAINING_ERROR


def _signal_number(exit_code: int | None) -> int | None:
    if exit_code is None:
        return None
    number = -exit_code if exit_code < 0 else exit_code - 128
    is_shell_code = exit_code - 128 in {int(member) for member in PREEMPTING}
    return number if exit_code < 0 or is_shell_code else None


def read_result(path: Path) -> SegmentResult | None:
    """Reads the result file that the training wrote.

    Returns:
        The result; None if the file does not exist; a result with the outcome "failed" if the
        file is invalid.
    """
    try:
        return SegmentResult.from_json(read_regular(path, at_most=MAX_RESULT_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ProtocolError, UnsafeFileError) as error:
        return SegmentResult(
            outcome=Outcome.FAILED, cause=Cause.INVALID_REPORT, reason=f"{path.name}: {error}"
        )


def read_last_line(path: Path) -> str:
    """Returns the last non-blank line of a log, shortened; an empty string if there is none."""
    try:
        with open_regular(path) as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            text = stream.read(LOG_TAIL_BYTES).decode(errors="replace")
    except (OSError, UnsafeFileError):
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:LINE_LENGTH] if lines else ""
