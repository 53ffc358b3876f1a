from __future__ import annotations

from pathlib import Path

import pytest

from hpo_ops.agent._segment_outcome import TrainingEnd, judge, read_last_line, read_result
from hpo_ops.protocol import Action, Assignment, Cause, Control, Outcome, SegmentResult

ASSIGNMENT = Assignment(
    study="s", trial=0, segment="a", params={}, metrics=["accuracy"], until_step=9
)
GO = Control()
PAUSE = Control(action=Action.PAUSE, reason="wait for rung 4")
STOP = Control(action=Action.STOP, reason="below the median")
DONE = SegmentResult(outcome=Outcome.COMPLETED, step=3)
PAUSED = SegmentResult(outcome=Outcome.PAUSED, step=3, reason="wait for rung 4")
BROKEN = SegmentResult(outcome=Outcome.FAILED, step=3, reason="KeyError: 'x'")


@pytest.mark.parametrize(
    ("exit_code", "said", "control", "outcome", "cause", "reason"),
    [
        (0, DONE, GO, Outcome.COMPLETED, Cause.FINISHED, ""),
        (0, None, GO, Outcome.COMPLETED, Cause.FINISHED, ""),
        (0, PAUSED, PAUSE, Outcome.PAUSED, Cause.REQUESTED, "wait for rung 4"),
        (0, None, PAUSE, Outcome.PAUSED, Cause.REQUESTED, "wait for rung 4"),
        (0, None, STOP, Outcome.STOPPED, Cause.REQUESTED, "below the median"),
        (0, DONE, STOP, Outcome.COMPLETED, Cause.FINISHED, ""),
        (1, BROKEN, GO, Outcome.FAILED, Cause.TRAINING_ERROR, "KeyError: 'x'"),
        (0, BROKEN, GO, Outcome.FAILED, Cause.TRAINING_ERROR, "KeyError: 'x'"),
        (1, None, GO, Outcome.FAILED, Cause.TRAINING_ERROR, "exit code 1: last line"),
        (3, DONE, GO, Outcome.FAILED, Cause.TRAINING_ERROR, "exit code 3: last line"),
        (1, PAUSED, PAUSE, Outcome.FAILED, Cause.TRAINING_ERROR, "exit code 1: last line"),
        (-9, None, GO, Outcome.PREEMPTED, Cause.KILLED, "killed by signal 9"),
        (-15, None, GO, Outcome.PREEMPTED, Cause.KILLED, "killed by signal 15"),
        (143, None, GO, Outcome.PREEMPTED, Cause.KILLED, "killed by signal 15"),
        (137, None, GO, Outcome.PREEMPTED, Cause.KILLED, "killed by signal 9"),
        (-11, None, GO, Outcome.FAILED, Cause.TRAINING_ERROR, "killed by signal 11"),
        (-9, PAUSED, PAUSE, Outcome.PAUSED, Cause.REQUESTED, "wait for rung 4"),
        (
            -9,
            None,
            STOP,
            Outcome.STOPPED,
            Cause.REQUESTED,
            "below the median (killed by signal 9)",
        ),
        (-9, BROKEN, GO, Outcome.FAILED, Cause.TRAINING_ERROR, "KeyError: 'x'"),
        (None, DONE, GO, Outcome.COMPLETED, Cause.FINISHED, ""),
        (
            None,
            None,
            GO,
            Outcome.FAILED,
            Cause.TRAINING_ERROR,
            "the training left neither a result nor an exit code",
        ),
    ],
)
def test_how_a_segment_ended(
    exit_code: int | None,
    said: SegmentResult | None,
    control: Control,
    outcome: Outcome,
    cause: Cause,
    reason: str,
) -> None:
    end = TrainingEnd(
        exit_code=exit_code,
        said=said,
        control=control,
        assignment=ASSIGNMENT,
        step=3,
        has_reports=True,
        last_line="last line",
    )
    assert judge(end) == SegmentResult(
        outcome=outcome, cause=cause, step=3, reason=reason, exit_code=exit_code
    )


@pytest.mark.parametrize(
    ("exit_code", "said", "control", "step", "outcome"),
    [
        # It saves and leaves, whatever its exit code: it has not come to its end.
        (0, None, GO, 3, Outcome.PREEMPTED),
        (1, None, GO, 3, Outcome.PREEMPTED),
        (1, BROKEN, GO, 3, Outcome.PREEMPTED),
        (143, None, GO, 3, Outcome.PREEMPTED),
        (0, DONE, GO, 3, Outcome.PREEMPTED),
        (1, DONE, GO, 9, Outcome.PREEMPTED),
        # It was about to leave anyway.
        (0, DONE, GO, 9, Outcome.COMPLETED),
        (0, None, GO, 9, Outcome.COMPLETED),
        (0, PAUSED, PAUSE, 3, Outcome.PAUSED),
        (0, None, PAUSE, 3, Outcome.PAUSED),
        (143, None, STOP, 3, Outcome.STOPPED),
        (1, None, PAUSE, 3, Outcome.FAILED),
    ],
)
def test_a_training_whose_container_is_terminated_has_not_failed(
    exit_code: int, said: SegmentResult | None, control: Control, step: int, outcome: Outcome
) -> None:
    end = TrainingEnd(
        exit_code=exit_code,
        said=said,
        control=control,
        assignment=ASSIGNMENT,
        step=step,
        has_reports=True,
        was_terminated=True,
    )
    result = judge(end)
    assert result.outcome is outcome
    assert (result.cause is Cause.EVICTED) == (outcome is Outcome.PREEMPTED)


def end_without_reports(*, step: int) -> TrainingEnd:
    return TrainingEnd(
        exit_code=0,
        said=DONE,
        control=GO,
        assignment=ASSIGNMENT,
        step=step,
        has_reports=False,
    )


def test_a_training_that_never_reports_has_failed() -> None:
    result = judge(end_without_reports(step=0))
    assert result.outcome is Outcome.FAILED
    assert result.cause is Cause.INVALID_REPORT
    assert result.reason == "the training ended without reporting accuracy"


def test_a_resumed_training_with_nothing_left_to_do_has_completed() -> None:
    result = judge(end_without_reports(step=9))
    assert result.outcome is Outcome.COMPLETED


def test_an_unreadable_result_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert read_result(path) is None
    path.write_text('{"outcome": "great"}')
    result = read_result(path)
    assert result is not None
    assert result.outcome is Outcome.FAILED
    assert result.cause is Cause.INVALID_REPORT
    assert "great" in result.reason
    end = TrainingEnd(
        exit_code=0, said=result, control=GO, assignment=ASSIGNMENT, step=3, has_reports=True
    )
    assert judge(end).cause is Cause.INVALID_REPORT


def test_the_last_line_is_short_and_not_blank(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    assert read_last_line(path) == ""
    path.write_text("\n" * 9)
    assert read_last_line(path) == ""
    path.write_text("x" * 10_000 + "\nTraceback\nKeyError: " + "y" * 10_000 + "\n \n")
    assert len(read_last_line(path)) == 200
