"""Trials and their observations."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core import Observation, Trial, TrialState
from hpo_ops.core.trial_state import as_observation, as_width

steps = st.lists(st.integers(0, 30), max_size=12, unique=True).map(sorted)


@given(steps, st.integers(0, 32))
def test_the_score_at_a_step_is_the_first_at_or_after_it(seen: list[int], step: int) -> None:
    trial = Trial(0, observations=[Observation(at, at / 10, 1.0) for at in seen])
    expected = next((at / 10 for at in seen if at >= step), None)
    assert trial.score_at(step) == expected


def test_a_fast_observation_is_an_observation() -> None:
    fields = (3, 0.5, 2.0, Fraction(1, 2))
    assert as_observation(fields) == Observation(*fields)
    assert type(as_observation(fields)) is Observation


def test_the_time_on_one_unit_scales_with_the_width() -> None:
    assert Observation(1, 0.5, 8.0, Fraction(1, 4)).unit_seconds == 2.0
    assert Observation(1, 0.5, 8.0).unit_seconds == 8.0


def test_equal_widths_are_one_object() -> None:
    assert as_width(1, among=2) is as_width(1, among=2)


def test_a_trial_without_reports_has_no_score_and_no_times() -> None:
    trial = Trial(0)
    assert (trial.score, trial.step_seconds, trial.unit_step_seconds) == (None, None, None)
    assert trial.step_at_start == 0


def test_finished_states_are_completed_pruned_and_failed() -> None:
    finished = {state for state in TrialState if state.is_finished}
    assert finished == {TrialState.COMPLETED, TrialState.PRUNED, TrialState.FAILED}
