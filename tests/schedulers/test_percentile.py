"""Percentile, median, threshold and patient, as Optuna defines them."""

from __future__ import annotations

from typing import ClassVar

import pytest

from hpo_ops.core import Action, Direction, Goal, Study, TrialState
from hpo_ops.schedulers import Median, Patient, Percentile, Threshold
from tests.contracts.scheduler import SchedulerContract


class TestPercentile(SchedulerContract):
    name = "percentile"
    options: ClassVar = {"percentile": 25.0, "max_steps": 6, "n_startup_trials": 2}
    bad_options = (
        ("percentile", 101),
        ("n_startup_trials", -1),
        ("n_warmup_steps", -1),
        ("interval_steps", 0),
        ("n_min_trials", 0),
        ("max_steps", 0),
    )


class TestMedian(SchedulerContract):
    name = "median"
    options: ClassVar = {"max_steps": 6, "n_startup_trials": 2}
    bad_options = (("n_startup_trials", -1), ("interval_steps", 0))


class TestThreshold(SchedulerContract):
    name = "threshold"
    options: ClassVar = {"lower": 0.1, "max_steps": 6}
    bad_options = (("upper", 0.0), ("interval_steps", 0))

    def test_a_bound_is_needed(self) -> None:
        with pytest.raises(ValueError, match="lower is null"):
            Threshold()


class TestPatient(SchedulerContract):
    name = "patient"
    options: ClassVar = {"patience": 2, "max_steps": 6, "wrapped": {"name": "median"}}
    bad_options = (("patience", -1), ("min_delta", -0.1))

    def test_only_some_rules_can_be_wrapped(self) -> None:
        with pytest.raises(ValueError, match=r"wrapped\.name is 'pop', but must be one of median"):
            Patient(patience=1, wrapped={"name": "pop"})

    def test_an_option_of_the_wrapped_rule_is_checked(self) -> None:
        with pytest.raises(ValueError, match=r"wrapped\.interval_steps is 0"):
            Patient(patience=1, wrapped={"name": "median", "interval_steps": 0})


def study_of(*curves: list[float], direction: Direction = Direction.MAXIMIZE) -> Study:
    """A study of whole trials with these curves, and one that runs."""
    study = Study(Goal(trials=20, direction=direction))
    for curve in curves:
        number = study.add().number
        study.start(number)
        for step, value in enumerate(curve, start=1):
            study.record(number, step, value)
        study.move(number, TrialState.COMPLETED)
    study.start(study.add().number)
    return study


def decide(
    scheduler: Median | Percentile | Patient | Threshold, study: Study, *values: float
) -> Action:
    trial = study.trials[-1]
    decision = scheduler.on_report(study, trial, 0.0) if not values else None
    for value in values:
        study.record(trial.number, trial.step + 1, value)
        decision = scheduler.on_report(study, trial, 0.0)
    assert decision is not None
    return decision.action


def test_a_trial_below_the_median_of_whole_trials_stops() -> None:
    rule = Median(n_startup_trials=3)
    assert decide(rule, study_of([0.1], [0.5], [0.9]), 0.49) is Action.STOP
    assert decide(rule, study_of([0.1], [0.5], [0.9]), 0.5) is Action.CONTINUE


def test_it_is_the_best_so_far_that_is_compared() -> None:
    curves = ([0.1, 0.1], [0.5, 0.5], [0.9, 0.9])
    assert decide(Median(n_startup_trials=3), study_of(*curves), 0.6, 0.1) is Action.CONTINUE


def test_nothing_stops_before_enough_trials_are_whole() -> None:
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


def test_too_few_whole_trials_at_a_step_decide_nothing() -> None:
    rule = Median(n_startup_trials=1, n_min_trials=2)
    assert decide(rule, study_of([0.5, 0.5], [0.5]), 0.1) is Action.STOP
    assert decide(rule, study_of([0.5, 0.5], [0.5]), 0.6, 0.1) is Action.CONTINUE


def test_the_percentile_counts_from_the_best() -> None:
    curves = [[v / 10] for v in range(11)]
    assert decide(Percentile(percentile=20.0), study_of(*curves), 0.79) is Action.STOP
    assert decide(Percentile(percentile=20.0), study_of(*curves), 0.81) is Action.CONTINUE


def test_less_is_better_where_the_study_says_so() -> None:
    study = study_of([0.1], [0.5], [0.9], direction=Direction.MINIMIZE)
    assert decide(Median(n_startup_trials=3), study, 0.6) is Action.STOP


def test_a_value_out_of_bounds_stops() -> None:
    rule = Threshold(lower=0.2, upper=0.8)
    assert decide(rule, study_of(), 0.1) is Action.STOP
    assert decide(rule, study_of(), 0.9) is Action.STOP
    assert decide(rule, study_of(), 0.5) is Action.CONTINUE
    assert decide(rule, study_of(), float("nan")) is Action.STOP


def test_bounds_are_values_whatever_the_direction() -> None:
    study = study_of(direction=Direction.MINIMIZE)
    assert decide(Threshold(upper=0.8), study, 0.9) is Action.STOP


def test_patience_is_lost_when_the_best_is_long_ago() -> None:
    rule = Patient(patience=1)
    assert decide(rule, study_of(), 0.5, 0.4) is Action.CONTINUE
    assert decide(rule, study_of(), 0.5, 0.4, 0.4) is Action.STOP
    assert decide(rule, study_of(), 0.5, 0.4, 0.5) is Action.CONTINUE
    assert decide(Patient(patience=1, min_delta=0.2), study_of(), 0.5, 0.4, 0.4) is Action.CONTINUE


def test_a_wrapped_rule_has_the_last_word() -> None:
    rule = Patient(patience=0, wrapped={"name": "threshold", "lower": 0.3})
    assert decide(rule, study_of(), 0.5, 0.4) is Action.CONTINUE
    assert decide(rule, study_of(), 0.5, 0.2) is Action.STOP
