"""Median, as Optuna defines it."""

from __future__ import annotations

from typing import ClassVar

from hpo_ops.core import Action, Direction
from hpo_ops.schedulers import Median
from tests.contracts.scheduler import SchedulerContract
from tests.schedulers.completed_studies import decide, study_of


class TestMedian(SchedulerContract):
    name = "median"
    options: ClassVar = {"max_steps": 6, "n_startup_trials": 2}
    bad_options = (("n_startup_trials", -1), ("interval_steps", 0))


def test_a_trial_below_the_median_of_completed_trials_stops() -> None:
    rule = Median(n_startup_trials=3)
    assert decide(rule, study_of([0.1], [0.5], [0.9]), 0.49) is Action.STOP
    assert decide(rule, study_of([0.1], [0.5], [0.9]), 0.5) is Action.CONTINUE


def test_it_is_the_best_so_far_that_is_compared() -> None:
    curves = ([0.1, 0.1], [0.5, 0.5], [0.9, 0.9])
    assert decide(Median(n_startup_trials=3), study_of(*curves), 0.6, 0.1) is Action.CONTINUE


def test_no_trial_stops_before_enough_have_completed() -> None:
    assert (
        decide(Median(n_startup_trials=4), study_of([0.1], [0.5], [0.9]), 0.0) is Action.CONTINUE
    )


def test_nothing_stops_while_warming_up_or_between_intervals() -> None:
    curves = ([0.5] * 6, [0.5] * 6)
    rule = Median(n_startup_trials=1, n_warmup_steps=2, interval_steps=3)
    study = study_of(*curves)
    said = [decide(rule, study, 0.1) for _ in range(6)]
    expected = [Action.CONTINUE, Action.STOP, Action.CONTINUE, Action.CONTINUE, Action.STOP]
    assert said == [*expected, Action.CONTINUE]


def test_too_few_completed_trials_at_a_step_decide_nothing() -> None:
    rule = Median(n_startup_trials=1, n_min_trials=2)
    assert decide(rule, study_of([0.5, 0.5], [0.5]), 0.1) is Action.STOP
    assert decide(rule, study_of([0.5, 0.5], [0.5]), 0.6, 0.1) is Action.CONTINUE


def test_less_is_better_where_the_study_says_so() -> None:
    study = study_of([0.1], [0.5], [0.9], direction=Direction.MINIMIZE)
    assert decide(Median(n_startup_trials=3), study, 0.6) is Action.STOP
