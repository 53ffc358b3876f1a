from __future__ import annotations

from dataclasses import replace

import pytest

from hpo_ops.core import Direction, Goal, Study, TrialState
from hpo_ops.core.fold_aggregation import (
    average,
    by_trial,
    chance_of_no_worse,
    folds_needed,
    reason_to_prune,
    summarise,
)
from hpo_ops.core.stopping_rules import StoppingRule, reached_target

UP, DOWN = Direction.MAXIMIZE, Direction.MINIMIZE
PAPER = [
    {1: 0.60, 2: 0.70, 3: 0.74, 4: 0.73},
    {1: 0.58, 2: 0.71, 3: 0.72, 4: 0.75},
    {1: 0.61, 2: 0.69, 3: 0.73, 4: 0.70},
]


def make_study(*, folds: int, trials: int = 4, target: float | None = None) -> Study:
    return Study(Goal(direction=UP, trials=trials * folds, folds=folds, target=target))


def end(study: Study, *values: float, state: TrialState = TrialState.COMPLETED) -> None:
    """The next folds start, report once each and end."""
    for value in values:
        number = study.add().number
        study.start(number)
        study.record(number, 1, value)
        study.move(number, state)


def test_the_curves_of_the_paper_have_their_best_step_third() -> None:
    means = average(PAPER)
    assert [round(means[step], 4) for step in means] == [0.5967, 0.70, 0.73, 0.7267]
    found = summarise(PAPER, UP)
    assert found is not None
    assert (found.step, round(found.mean, 4)) == (3, 0.73)
    assert found.values == (0.74, 0.72, 0.73)
    assert found.deviation == pytest.approx(0.01)


def test_the_best_step_of_a_loss_is_its_least() -> None:
    found = summarise(PAPER, DOWN)
    assert found is not None
    assert found.step == 1


def test_only_steps_that_every_fold_has_count() -> None:
    assert average([{1: 0.1, 2: 0.9}, {1: 0.3}]) == {1: pytest.approx(0.2)}
    assert average([{1: 0.1}, {2: 0.3}]) == {}
    assert summarise([{1: 0.1}, {2: 0.3}], UP) is None
    assert summarise([], UP) is None


def test_a_single_fold_has_no_deviation() -> None:
    found = summarise(PAPER[:1], UP)
    assert found is not None
    assert (found.mean, found.deviation) == (0.74, None)


@pytest.mark.parametrize(("p", "folds"), [(0.5, 2), (0.2, 3), (0.125, 4), (0.1, 4), (0.05, 5)])
def test_a_smaller_chance_needs_more_folds(p: float, folds: int) -> None:
    assert folds_needed(p) == folds
    own = {fold: {1: 0.1 + fold / 100} for fold in range(folds)}
    best = {fold: {1: 0.5 + fold / 50} for fold in range(folds)}
    assert chance_of_no_worse(own, best, UP) == 0.5**folds < p
    fewer = {fold: own[fold] for fold in range(folds - 1)}
    assert chance_of_no_worse(fewer, best, UP) >= p


def test_the_test_knows_which_way_is_better_and_in_how_many_folds() -> None:
    low = {fold: {1: 0.1 + fold / 100} for fold in range(4)}
    high = {fold: {1: 0.5 + fold / 50} for fold in range(4)}
    assert chance_of_no_worse(high, low, UP) == 1.0
    assert chance_of_no_worse(high, low, DOWN) == 0.0625
    assert chance_of_no_worse(low, low, UP) == 1.0
    mixed = {**low, 0: {1: 0.51}}  # a little better in the first fold, far worse in the others
    assert chance_of_no_worse(mixed, high, UP) == 0.125


def test_a_trial_is_its_folds() -> None:
    study = make_study(folds=3)
    whole = by_trial(study)
    assert by_trial(make_study(folds=1)).goal.trials == 4
    assert (study.goal.trials, whole.goal.trials) == (12, 4)
    end(study, 0.74, 0.72)
    assert [trial.state for trial in whole.trials] == [TrialState.WAITING]
    assert whole.best is None  # what is not whole is not compared
    study.start(study.add().number)
    assert whole.trials[0].state is TrialState.RUNNING
    study.record(2, 1, 0.73)
    study.move(2, TrialState.COMPLETED)
    assert whole.best is whole.trials[0]
    assert whole.best.best_score == pytest.approx(0.73)
    assert (whole.finished, whole.unstarted) == (1, 3)


def test_whole_trials_are_counted_in_the_same_way_however_late_one_asks() -> None:
    late, early = make_study(folds=2), make_study(folds=2)
    by_trial(early)
    for study in (late, early):
        end(study, 0.5, 0.6)
        end(study, 0.7, 0.9)
        end(study, 0.7, state=TrialState.FAILED)
        end(study, 0.1)
        end(study, 0.2, 0.3)
        whole = by_trial(study)
        assert [trial.state for trial in whole.trials] == [
            TrialState.COMPLETED,
            TrialState.COMPLETED,
            TrialState.FAILED,
            TrialState.COMPLETED,
        ]
        assert whole.best is whole.trials[1]
        assert whole.stale == 2


def test_a_trial_that_has_begun_gets_all_of_its_folds() -> None:
    study = make_study(folds=3, trials=4)
    end(study, 0.1, 0.2, 0.3, 0.4)
    study.goal = replace(study.goal, trials=3)  # somebody wants one trial only
    assert study.unstarted == 2
    end(study, 0.5, 0.6)
    assert study.unstarted == 0


def test_the_target_and_patience_are_about_means_of_whole_trials() -> None:
    study = make_study(folds=2, target=0.8)
    end(study, 0.95)
    assert reached_target(by_trial(study)) is None
    end(study, 0.55)
    assert reached_target(by_trial(study)) is None
    end(study, 0.5, 0.5)
    patience = StoppingRule(patience=1).reason_to_stop(by_trial(study), 0.0)
    assert patience is not None
    assert "last 1 trials" in patience
    end(study, 0.9, 0.8)
    assert reached_target(by_trial(study)) == "target 0.8 reached: trial 2 has 0.85"


def test_failures_are_counted_by_trial() -> None:
    study = make_study(folds=2, trials=6)
    for _ in range(5):
        end(study, 0.5)
        end(study, 0.5, state=TrialState.FAILED)
    reason = StoppingRule(failures=0.5).reason_to_stop(by_trial(study), 0.0)
    assert reason == "5 of 5 trials failed (at most 50% may)"


def test_a_trial_is_pruned_when_enough_folds_are_worse_than_those_of_the_best() -> None:
    study = make_study(folds=5)
    end(study, 0.71, 0.72, 0.73, 0.74, 0.75)
    end(study, 0.61, 0.61, 0.61)
    assert reason_to_prune(study, 1, 0.1) is None  # three folds cannot say it
    end(study, 0.61)
    assert reason_to_prune(study, 1, 0.1) == (
        "worse than trial 0 in 4 of 5 folds (Wilcoxon: p = 0.0625, below 0.1)"
    )
    assert reason_to_prune(study, 1, 0.05) is None
    end(study, 0.61)
    assert reason_to_prune(study, 1, 0.1) is None  # all are trained


def test_a_trial_that_is_better_or_first_is_not_pruned() -> None:
    study = make_study(folds=5)
    end(study, 0.1, 0.2, 0.3, 0.4)
    assert reason_to_prune(study, 0, 0.1) is None
    end(study, 0.5)
    end(study, 0.61, 0.62, 0.63, 0.64)
    assert reason_to_prune(study, 1, 0.1) is None


def test_the_retraining_is_no_fold() -> None:
    study = make_study(folds=2)
    end(study, 0.5, 0.6, 0.7)
    study.add().is_retraining = True
    study.start(3)
    study.record(3, 1, 1.0)
    study.move(3, TrialState.COMPLETED)
    whole = by_trial(study)
    assert [trial.state for trial in whole.trials] == [TrialState.COMPLETED, TrialState.WAITING]
    assert whole.best is whole.trials[0]
