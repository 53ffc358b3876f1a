"""How a segment ended: what the training said, how its process ended, and what was asked of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from hpo_ops.protocol import (
    Action,
    Assignment,
    Control,
    Outcome,
    ProtocolError,
    SegmentResult,
    UnsafeFileError,
    open_regular,
    read_regular,
)

ASKED = {
    Action.PAUSE: Outcome.PAUSED,
    Action.RESIZE: Outcome.PAUSED,
    Action.STOP: Outcome.STOPPED,
}
PREEMPTING = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
MAX_RESULT_BYTES = 1 << 20
LOG_TAIL_BYTES = 4096
LINE_LENGTH = 200


def conclude(
    exit_code: int | None,
    *,
    said: SegmentResult | None,
    control: Control,
    assignment: Assignment,
    step: int,
    has_reports: bool,
    last_line: str = "",
    was_told_to_go: bool = False,
) -> SegmentResult:
    """Judges how a segment ended.

    Args:
        exit_code: Exit code of the training process, negative for a signal; None if unknown.
        said: What the training wrote to ``result.json``, if anything.
        control: What the platform asked for last.
        assignment: What the training was told.
        step: The last step with a good report.
        has_reports: Whether there was a good report in this segment.
        last_line: The last line of the log.
        was_told_to_go: Whether the training's container was told to go while it was at work.
    """

    def result(outcome: Outcome, reason: str) -> SegmentResult:
        return SegmentResult(outcome=outcome, step=step, reason=reason, exit_code=exit_code)

    is_asked = control.action in ASKED
    if was_told_to_go and not is_asked and not _is_whole(exit_code, said, assignment, step):
        return result(Outcome.PREEMPTED, "told to go")
    if said is not None and said.outcome is Outcome.FAILED:
        return result(Outcome.FAILED, said.reason)
    number = _signal_number(exit_code)
    if number is not None:
        return result(*_after_signal(number, said, control))
    if exit_code:
        reason = f"exit code {exit_code}"
        return result(Outcome.FAILED, f"{reason}: {last_line}" if last_line else reason)
    if said is not None and said.outcome is not Outcome.COMPLETED:
        return result(said.outcome, said.reason)
    if said is None and exit_code is None:
        return result(Outcome.FAILED, "the training left neither a result nor an exit code")
    if said is None and is_asked and step != assignment.until_step:
        return result(ASKED[control.action], control.reason)
    if not has_reports and step == 0:
        names = ", ".join(assignment.metrics)
        return result(Outcome.FAILED, f"the training ended without reporting {names}")
    return result(Outcome.COMPLETED, said.reason if said is not None else "")


def _is_whole(
    exit_code: int | None, said: SegmentResult | None, assignment: Assignment, step: int
) -> bool:
    """Whether a training that was told to go had come to its end all the same.

    One that saves on SIGTERM may leave with any exit code, 0 as well, and the SDK then takes it
    for done: where it was told how far to go, that counts.
    """
    if exit_code != 0 or (said is not None and said.outcome is not Outcome.COMPLETED):
        return False
    if assignment.until_step is None:
        return said is not None
    return step >= assignment.until_step


def read_result(path: Path) -> SegmentResult | None:
    """What the training said about its end; None if nothing."""
    try:
        return SegmentResult.from_json(read_regular(path, at_most=MAX_RESULT_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ProtocolError, UnsafeFileError) as error:
        return SegmentResult(outcome=Outcome.FAILED, reason=f"{path.name}: {error}")


def read_last_line(path: Path) -> str:
    """The last line of a log that is not blank, shortened; empty if there is none."""
    try:
        with open_regular(path) as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            text = stream.read(LOG_TAIL_BYTES).decode(errors="replace")
    except (OSError, UnsafeFileError):
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:LINE_LENGTH] if lines else ""


def _signal_number(exit_code: int | None) -> int | None:
    if exit_code is None:
        return None
    number = -exit_code if exit_code < 0 else exit_code - 128
    is_shell_code = exit_code - 128 in {int(member) for member in PREEMPTING}
    return number if exit_code < 0 or is_shell_code else None


def _after_signal(
    number: int, said: SegmentResult | None, control: Control
) -> tuple[Outcome, str]:
    reason = f"killed by signal {number}"
    if number not in PREEMPTING:
        return Outcome.FAILED, reason
    if said is not None:
        return said.outcome, said.reason
    if control.action in ASKED:
        return ASKED[control.action], f"{control.reason} ({reason})"
    return Outcome.PREEMPTED, reason
