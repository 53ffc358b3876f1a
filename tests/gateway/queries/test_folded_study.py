"""A study with folds: the ranking of its trials, and the checkpoints that represent them."""

from __future__ import annotations

from dataclasses import replace

from hpo_ops.core import TrialState
from hpo_ops.gateway.queries._folded_study import FoldedStudy, fold_numbers
from hpo_ops.ledger.checkpoint_ranking import SavedCheckpoint
from tests.gateway.queries.test_trial_summaries import COMPLETED, fold, study

CURVES = {
    **{0: {1: 0.1, 2: 0.6}, 1: {1: 0.2, 2: 0.9}, 2: {1: 0.3, 2: 0.6}},  # trial 0: 0.7 at step 2
    **{3: {1: 0.9}, 4: {1: 0.8}, 5: {1: 0.7}},  # trial 1: 0.8 at step 1
    **{6: {1: 0.5}, 7: {}, 8: {}},
}


def saved(trial: int, step: int) -> SavedCheckpoint:
    return SavedCheckpoint(trial=trial, step=step, uri=f"s3://x/{trial}/{step}", digest="d")


def folded(*checkpoints: SavedCheckpoint, retraining: int | None = None) -> FoldedStudy:
    states = [COMPLETED] * 7 + [TrialState.RUNNING, TrialState.WAITING]
    parts = [fold(number, state) for number, state in enumerate(states)]
    if retraining is not None:
        parts.append(fold(retraining, COMPLETED))
    return FoldedStudy(
        record=replace(study(), retraining=retraining),
        parts=parts,
        curves={**CURVES, 9: {}},
        checkpoints={
            part.trial: [item for item in checkpoints if item.trial == part.trial]
            for part in parts
        },
    )


def test_a_trial_has_the_numbers_of_its_folds() -> None:
    assert list(fold_numbers(study(), 2)) == [6, 7, 8]


def test_only_completed_trials_are_ranked() -> None:
    trials = folded()
    assert [trial.trial for trial in trials.trials] == [0, 1, 2]
    assert [trial.trial for trial in trials.ranked_trials] == [1, 0]


def test_the_best_fold_represents_the_best_trial() -> None:
    best = folded(saved(4, 1), saved(3, 1), saved(1, 2)).best
    assert best is not None
    assert (best.trial, best.step) == (1, 1)
    assert (best.checkpoint_trial, best.checkpoint_fold, best.checkpoint_step) == (3, 0, 1)
    assert (best.checkpoint_uri, best.checkpoint_value) == ("s3://x/3/1", 0.9)


def test_the_best_trial_may_have_no_checkpoint() -> None:
    best = folded(saved(1, 2)).best
    assert best is not None
    assert (best.trial, best.checkpoint_uri, best.checkpoint_trial) == (1, None, None)


def test_the_retraining_represents_the_best_trial_once_it_has_completed() -> None:
    best = folded(saved(3, 1), saved(9, 1), saved(9, 4), retraining=9).best
    assert best is not None
    assert best.is_retrained
    assert (best.trial, best.checkpoint_trial, best.checkpoint_step) == (1, 9, 4)
    assert (best.checkpoint_fold, best.checkpoint_value) == (None, None)


def test_checkpoints_of_the_best_and_of_unfinished_folds_are_kept() -> None:
    checkpoints = [saved(0, 1), saved(1, 2), saved(3, 1), saved(6, 1), saved(7, 1), saved(7, 2)]
    kept = folded(*checkpoints).kept_checkpoints()
    assert sorted((item.trial, item.step) for item in kept) == [(1, 2), (3, 1), (7, 2)]
