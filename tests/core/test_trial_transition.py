"""What becomes of a trial when a segment ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core import TrialState
from hpo_ops.core.trial_transition import (
    MAX_PREEMPTIONS_WITHOUT_PROGRESS as MOST,
)
from hpo_ops.core.trial_transition import SegmentHistory, trial_after
from hpo_ops.protocol import Outcome, SegmentResult

C, P, S, F, X = (
    Outcome.COMPLETED,
    Outcome.PAUSED,
    Outcome.STOPPED,
    Outcome.FAILED,
    Outcome.PREEMPTED,
)


@pytest.mark.parametrize(
    ("outcome", "step", "history", "state", "reason"),
    [
        (C, 9, {"max_steps": 9}, "completed", "trained 9 steps"),
        (C, 12, {"max_steps": 9}, "completed", "trained 12 steps"),
        (C, 4, {"max_steps": None}, "completed", "trained 4 steps"),
        (C, 3, {"max_steps": 9}, "paused", "trained 3 of 9 steps"),
        (C, 3, {"max_steps": 9, "is_study_over": True}, "pruned", "the study is over"),
        (C, 9, {"max_steps": 9, "is_study_over": True}, "completed", "trained 9 steps"),
        (C, 0, {"max_steps": 9}, "failed", "ended before its first step"),
        (S, 3, {"max_steps": 9}, "pruned", "why"),
        (S, 3, {"max_steps": 9, "is_study_over": True}, "pruned", "why"),
        (P, 3, {"max_steps": 9}, "paused", "why"),
        (P, 3, {"max_steps": 9, "is_study_over": True}, "pruned", "why"),
        (P, 3, {"max_steps": 9, "is_study_paused": True}, "running", "paused with its study"),
        (F, 3, {"max_steps": 9}, "failed", "why"),
        (F, 3, {"max_steps": 9, "retries": 2}, "running", "retry 1 of 2: why"),
        (F, 3, {"max_steps": 9, "retries": 2, "failures": 1}, "running", "retry 2 of 2"),
        (F, 3, {"max_steps": 9, "retries": 2, "failures": 2}, "failed", "why (attempt 3 of 3)"),
        (F, 3, {"max_steps": 9, "retries": 2, "is_study_over": True}, "failed", "why"),
        (X, 3, {"max_steps": 9}, "running", "preempted: why"),
        (X, 3, {"max_steps": 9, "is_study_over": True}, "pruned", "the study is over"),
        (X, 3, {"max_steps": 9, "fruitless_preemptions": MOST - 1}, "running", "preempted"),
        (X, 3, {"max_steps": 9, "fruitless_preemptions": MOST}, "failed", "without a new"),
    ],
)
def test_a_trial_goes_on_or_ends_by_how_its_segment_ended(
    outcome: Outcome, step: int, history: dict[str, Any], state: str, reason: str
) -> None:
    said = "" if outcome is C else "why"
    transition = trial_after(
        SegmentResult(outcome=outcome, step=step, reason=said), SegmentHistory(**history)
    )
    assert transition.state == state
    assert reason in transition.reason


@pytest.mark.parametrize("outcome", [C, S, P, X])
def test_the_trial_that_reached_the_target_is_completed_however_its_segment_ended(
    outcome: Outcome,
) -> None:
    history = SegmentHistory(max_steps=9, reached_target=True, is_study_over=True)
    assert (
        trial_after(SegmentResult(outcome=outcome, step=3), history).state is TrialState.COMPLETED
    )


def test_a_failure_without_words_gives_its_exit_code() -> None:
    result = SegmentResult(outcome=F, exit_code=3)
    assert trial_after(result, SegmentHistory(max_steps=None)).reason == "exit code 3"


histories = st.builds(
    SegmentHistory,
    max_steps=st.none() | st.integers(1, 10),
    failures=st.integers(0, 5),
    retries=st.integers(0, 5),
    fruitless_preemptions=st.integers(0, 2 * MOST),
    reached_target=st.booleans(),
    is_study_over=st.booleans(),
    is_study_paused=st.booleans(),
)
results = st.builds(
    SegmentResult,
    outcome=st.sampled_from(Outcome),
    step=st.integers(0, 12),
    reason=st.sampled_from(["", "why"]),
    exit_code=st.none() | st.integers(0, 255),
)


@given(results, histories)
def test_a_transition_has_a_reason_and_ends_every_trial_of_a_study_that_is_over(
    result: SegmentResult, history: SegmentHistory
) -> None:
    transition = trial_after(result, history)
    assert transition.reason.strip()
    assert transition.state is not TrialState.WAITING
    if history.is_study_over:
        assert transition.state.is_finished


@given(histories, st.integers(0, 12))
def test_no_trial_is_tried_again_for_ever(history: SegmentHistory, step: int) -> None:
    failed = trial_after(SegmentResult(outcome=F, step=step), history)
    if history.failures >= history.retries:
        assert failed.state is TrialState.FAILED
    taken = trial_after(SegmentResult(outcome=X, step=step), history)
    if history.fruitless_preemptions >= MOST:
        assert taken.state is not TrialState.RUNNING
