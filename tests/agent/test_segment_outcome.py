from __future__ import annotations

from pathlib import Path

import pytest

from hpo_ops.agent.segment_outcome import conclude, read_last_line, read_result
from hpo_ops.protocol import Action, Assignment, Control, Outcome, SegmentResult

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
    ("exit_code", "said", "control", "outcome", "reason"),
    [
        (0, DONE, GO, Outcome.COMPLETED, ""),
        (0, None, GO, Outcome.COMPLETED, ""),
        (0, PAUSED, PAUSE, Outcome.PAUSED, "wait for rung 4"),
        (0, None, PAUSE, Outcome.PAUSED, "wait for rung 4"),
        (0, None, STOP, Outcome.STOPPED, "below the median"),
        (0, DONE, STOP, Outcome.COMPLETED, ""),
        (1, BROKEN, GO, Outcome.FAILED, "KeyError: 'x'"),
        (0, BROKEN, GO, Outcome.FAILED, "KeyError: 'x'"),
        (1, None, GO, Outcome.FAILED, "exit code 1: last line"),
        (3, DONE, GO, Outcome.FAILED, "exit code 3: last line"),
        (1, PAUSED, PAUSE, Outcome.FAILED, "exit code 1: last line"),
        (-9, None, GO, Outcome.PREEMPTED, "killed by signal 9"),
        (-15, None, GO, Outcome.PREEMPTED, "killed by signal 15"),
        (143, None, GO, Outcome.PREEMPTED, "killed by signal 15"),
        (137, None, GO, Outcome.PREEMPTED, "killed by signal 9"),
        (-11, None, GO, Outcome.FAILED, "killed by signal 11"),
        (-9, PAUSED, PAUSE, Outcome.PAUSED, "wait for rung 4"),
        (-9, None, STOP, Outcome.STOPPED, "below the median (killed by signal 9)"),
        (-9, BROKEN, GO, Outcome.FAILED, "KeyError: 'x'"),
        (None, DONE, GO, Outcome.COMPLETED, ""),
        (
            None,
            None,
            GO,
            Outcome.FAILED,
            "the training left neither a result nor an exit code",
        ),
    ],
)
def test_how_a_segment_ended(
    exit_code: int | None,
    said: SegmentResult | None,
    control: Control,
    outcome: Outcome,
    reason: str,
) -> None:
    result = conclude(
        exit_code,
        said=said,
        control=control,
        assignment=ASSIGNMENT,
        step=3,
        has_reports=True,
        last_line="last line",
    )
    assert result == SegmentResult(outcome=outcome, step=3, reason=reason, exit_code=exit_code)


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
def test_a_training_that_is_told_to_go_has_not_failed(
    exit_code: int, said: SegmentResult | None, control: Control, step: int, outcome: Outcome
) -> None:
    result = conclude(
        exit_code,
        said=said,
        control=control,
        assignment=ASSIGNMENT,
        step=step,
        has_reports=True,
        was_told_to_go=True,
    )
    assert result.outcome is outcome


def test_a_training_that_never_reports_has_failed() -> None:
    result = conclude(0, said=DONE, control=GO, assignment=ASSIGNMENT, step=0, has_reports=False)
    assert result.outcome is Outcome.FAILED
    assert result.reason == "the training ended without reporting accuracy"


def test_a_resumed_training_with_nothing_left_to_do_has_completed() -> None:
    result = conclude(0, said=DONE, control=GO, assignment=ASSIGNMENT, step=9, has_reports=False)
    assert result.outcome is Outcome.COMPLETED


def test_an_unreadable_result_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert read_result(path) is None
    path.write_text('{"outcome": "great"}')
    result = read_result(path)
    assert result is not None
    assert result.outcome is Outcome.FAILED
    assert "great" in result.reason


def test_the_last_line_is_short_and_not_blank(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    assert read_last_line(path) == ""
    path.write_text("\n" * 9)
    assert read_last_line(path) == ""
    path.write_text("x" * 10_000 + "\nTraceback\nKeyError: " + "y" * 10_000 + "\n \n")
    assert len(read_last_line(path)) == 200
