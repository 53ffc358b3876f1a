"""The view of a study, against the plain way to answer the same query."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core import Direction, Goal, Ranking, Study, TrialState

reports = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12), st.floats(-1, 1)), max_size=80)


def ordered(ranking: Ranking) -> list[float]:
    """Takes the scores out of a ranking, the lowest first."""
    found = []
    while len(ranking):
        found.append(ranking.quantile(0.0))
        ranking.remove(found[-1])
    return found


@given(reports, st.integers(0, 12))
def test_a_ranking_is_the_same_asked_early_or_late(
    seen: list[tuple[int, int, float]], step: int
) -> None:
    early, late = Study(Goal(trials=6)), Study(Goal(trials=6))
    early.ranking_at(step)
    for study in (early, late):
        for _ in range(6):
            study.add()
        for number, at, value in seen:
            study.record(number, at, value)
    kept, fresh = early.ranking_at(step), late.ranking_at(step)
    expected = [t.score_at(step) for t in late.trials if t.score_at(step) is not None]
    assert ordered(kept) == sorted(score for score in expected if score is not None)
    assert ordered(fresh) == sorted(score for score in expected if score is not None)


@given(reports)
def test_steps_rise_and_the_best_is_the_best(seen: list[tuple[int, int, float]]) -> None:
    study = Study(Goal(trials=6))
    for _ in range(6):
        study.add()
    taken = [value for number, at, value in seen if study.record(number, at, value)]
    for trial in study.trials:
        steps = [observation.step for observation in trial.observations]
        assert steps == sorted(set(steps))
    assert (study.best is None) == (not taken)
    if study.best is not None:
        assert study.best.best_score == max(taken)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(list(TrialState))), max_size=60))
def test_every_trial_is_in_exactly_one_state(moves: list[tuple[int, TrialState]]) -> None:
    study = Study(Goal(trials=5))
    for _ in range(5):
        study.add()
    for number, state in moves:
        study.move(number, state)
    held = [number for state in TrialState for number in study.in_state(state)]
    assert sorted(held) == list(range(5))
    for trial in study.trials:
        assert trial.number in study.in_state(trial.state)


def test_a_repeated_report_is_ignored() -> None:
    study = Study(Goal(trials=1))
    study.add()
    assert study.record(0, 1, 0.5, 2.0)
    assert not study.record(0, 1, 0.9, 2.0)
    assert study.trials[0].seconds == 2.0
    assert study.trials[0].best_score == 0.5


def test_scores_are_negated_where_less_is_better() -> None:
    study = Study(Goal(trials=2, direction=Direction.MINIMIZE, target=0.1))
    study.add()
    study.add()
    study.record(0, 1, 0.5)
    study.record(1, 1, 0.2)
    assert study.best is study.trials[1]
    assert study.goal.target_score == -0.1


def test_a_value_that_is_no_number_is_worse_than_all() -> None:
    study = Study(Goal(trials=2))
    study.add()
    study.add()
    study.record(0, 1, math.nan)
    study.record(1, 1, -1e9)
    assert study.best is study.trials[1]
    assert ordered(study.ranking_at(1)) == [-math.inf, -1e9]


def test_a_trial_that_is_not_running_holds_nothing() -> None:
    study = Study(Goal(trials=1))
    study.add()
    assert study.start(0, width=Fraction(3)).width == 3
    assert study.move(0, TrialState.PAUSED).width == 0
    assert study.trials[0].segments == 1


def test_stale_counts_the_trials_that_ended_since_the_best_was_beaten() -> None:
    study = Study(Goal(trials=4))
    for number in range(4):
        study.add()
        study.start(number)
    study.record(0, 1, 0.5)
    study.move(0, TrialState.COMPLETED)
    study.move(1, TrialState.PRUNED)
    assert study.stale == 1
    study.record(2, 1, 0.6)
    assert study.stale == 0


def test_the_best_trial_beats_itself() -> None:
    study = Study(Goal(trials=2))
    for number in range(2):
        study.add()
        study.start(number)
    study.record(0, 1, 0.5)
    study.move(1, TrialState.PRUNED)
    study.record(0, 2, 0.6)
    assert study.stale == 0
    assert study.best is study.trials[0]
