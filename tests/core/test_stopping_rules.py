"""When a study ends before its trials are used up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core import Direction, Goal, Study, TrialState
from hpo_ops.core.stopping_rules import (
    MIN_FINISHED_FOR_FAILURES,
    StoppingRule,
    passed_deadline,
    reached_target,
)


def study_of(values: list[float | None], **goal: Any) -> Study:
    """A study whose trials ended one after the other; None is a trial that failed."""
    study = Study(Goal(trials=100, **goal))
    for value in values:
        number = study.add().number
        study.start(number)
        if value is not None:
            study.record(number, 1, value)
        study.move(number, TrialState.FAILED if value is None else TrialState.COMPLETED)
    return study


def test_a_study_without_rules_goes_on() -> None:
    study = study_of([0.1, 0.0, None, None, None, None, None])
    assert StoppingRule().reason_to_stop(study, now=1e9) is None


@pytest.mark.parametrize(
    ("direction", "target", "values", "reason"),
    [
        ("maximize", 0.9, [0.5, 0.95], "target 0.9 reached: trial 1 has 0.95"),
        ("maximize", 0.9, [0.9], "target 0.9 reached: trial 0 has 0.9"),
        ("maximize", 0.9, [0.5, 0.89], None),
        ("minimize", 0.1, [0.5, 0.05], "target 0.1 reached: trial 1 has 0.05"),
        ("minimize", 0.1, [0.5, 0.11], None),
        ("maximize", 0.0, [-1.0, 0.0], "target 0 reached: trial 1 has 0"),
        ("maximize", 0.9, [], None),
        ("maximize", 0.9, [float("nan")], None),
        ("maximize", None, [1e9], None),
    ],
)
def test_a_target_is_reached_by_the_best_value(
    direction: str, target: float | None, values: list[float | None], reason: str | None
) -> None:
    study = study_of(values, direction=Direction(direction), target=target)
    assert reached_target(study) == reason
    assert StoppingRule().reason_to_stop(study, now=0) == reason


def test_a_target_counts_while_its_trial_still_runs() -> None:
    study = Study(Goal(trials=4, target=0.9))
    study.add()
    study.start(0)
    study.record(0, 1, 0.95)
    study.record(0, 2, 0.1)  # it was there
    assert reached_target(study) == "target 0.9 reached: trial 0 has 0.95"


@pytest.mark.parametrize(
    ("deadline", "now", "is_over"),
    [(None, 1e12, False), (60.0, 59.9, False), (60.0, 60.0, True), (60.0, 61.0, True)],
)
def test_time_is_over_at_the_deadline(deadline: float | None, now: float, is_over: bool) -> None:
    study = study_of([0.1], deadline_seconds=deadline)
    reason = passed_deadline(study, now)
    assert reason == ("the deadline of 60 s has passed" if is_over else None)
    assert StoppingRule().reason_to_stop(study, now) == reason


def test_patience_ends_when_so_many_trials_were_no_better() -> None:
    rule = StoppingRule(patience=3)
    assert rule.reason_to_stop(study_of([0.1, 0.5, 0.4]), now=0) is None
    reason = rule.reason_to_stop(study_of([0.1, 0.5, 0.4, 0.5, 0.1]), now=0)
    assert reason is not None
    assert "no better value" in reason
    assert "patience 3" in reason
    assert rule.reason_to_stop(study_of([0.1, 0.5, 0.4, 0.5, 0.6]), now=0) is None


def test_the_trial_that_was_better_is_not_counted_against_the_patience() -> None:
    assert StoppingRule(patience=1).reason_to_stop(study_of([0.1, 0.2, 0.3]), now=0) is None


@pytest.mark.parametrize(
    ("failed", "finished", "share", "stops"),
    [
        (4, 4, 0.5, False),  # too early to say
        (3, 5, 0.5, True),
        (3, 6, 0.5, False),  # at most half may
        (4, 6, 0.5, True),
        (1, 5, 0.0, True),
        (0, 5, 0.0, False),
        (9, 9, 1.0, False),
    ],
)
def test_too_many_failures_end_a_study(
    failed: int, finished: int, share: float, stops: bool
) -> None:
    study = study_of([None] * failed + [0.1] * (finished - failed))
    reason = StoppingRule(failures=share).reason_to_stop(study, now=0)
    assert reason == (
        f"{failed} of {finished} trials failed (at most {share:.0%} may)" * stops or None
    )


@given(
    st.lists(st.none() | st.floats(0, 1), max_size=30),
    st.none() | st.integers(1, 10),
    st.floats(0, 1),
)
def test_a_study_that_stops_says_why_by_the_rule_that_was_broken(
    values: list[float | None], patience: int | None, share: float
) -> None:
    study = study_of(values)
    reason = StoppingRule(patience=patience, failures=share).reason_to_stop(study, now=0)
    failed = values.count(None)
    is_failing = len(values) >= MIN_FINISHED_FOR_FAILURES and failed > share * len(values)
    is_stale = patience is not None and study.stale >= patience
    assert (reason is not None) == (is_failing or is_stale)
    assert reason is None or reason.strip()
