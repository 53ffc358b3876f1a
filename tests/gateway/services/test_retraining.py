"""The best trial of a study with folds, trained once more on all data."""

from __future__ import annotations

import pytest

from hpo_ops.client import VerdictKind
from hpo_ops.core import TrialState
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.best_trial import find_best
from hpo_ops.gateway.queries.kept_checkpoints import list_kept
from hpo_ops.gateway.queries.study_overview import read_progress
from hpo_ops.gateway.queries.trial_lists import list_trials
from hpo_ops.protocol import Action, Outcome
from tests.gateway.folding import PAPER, finish, run_rolling, seen_by_optuna, start, train


def test_the_best_trial_is_trained_on_all_data_up_to_its_best_step(
    services: Gateway, database: str
) -> None:
    metric = {"name": "accuracy", "direction": "maximize", "target": 0.72}
    folds = {"count": 3, "retrain": True}
    study_id = start(services, trials=4, folds=folds, metric=metric, parallelism=4)
    turns = [services.next_actions.next_action(study_id, number, key="a") for number in range(4)]
    for fold in range(3):
        train(services, turns[fold], PAPER[fold])
    # The search has ended by its target, one fold into the second trial.
    assert services.studies.verdict(study_id).kind is VerdictKind.STOP
    finish(services, turns[3], Outcome.STOPPED)

    begun = services.studies.retrain(study_id)
    assert begun.trial == 4
    assert begun.reason == "trial 0 is trained on all data, up to its best step 3"
    assert services.studies.retrain(study_id).trial == 4
    progress = read_progress(services.ledger, services.ledger.get(study_id))
    assert (progress.state, progress.retraining) == ("retraining", 4)
    turn = services.next_actions.next_action(study_id, 4, key="a")
    told = turn.assignment
    assert told is not None
    assert (told.fold, told.folds, told.until_step) == (None, 3, 3)
    first = list_trials(services.ledger, services.ledger.get(study_id))[0]
    assert told.params == first.params
    # The target of the search does not end it, and neither does a worker that dies.
    finish(services, turn, Outcome.PREEMPTED)
    turn = services.next_actions.next_action(study_id, 4, key="b")
    assert train(services, turn, (0.9, 0.95, 0.99, 1.0)) is Outcome.COMPLETED
    done = services.next_actions.next_action(study_id, 4, key="c")
    assert done.score is not None
    assert (done.score.state, done.score.step) == (TrialState.COMPLETED, 3)

    record = services.ledger.get(study_id)
    best = find_best(services.ledger, record)
    assert best is not None
    assert (best.trial, best.is_retrained, best.checkpoint_fold) == (0, True, None)
    assert best.value == pytest.approx(0.73)  # the score stays that of the folds
    assert best.checkpoint_uri == f"/{record.key}/trials/4/3"
    assert (4, 3) in list_kept(services.ledger, record)
    services.studies.end(study_id, {})
    told_trials = seen_by_optuna(services, study_id, database)
    assert [trial.state.name for trial in told_trials] == ["COMPLETE", "PRUNED"]
    assert len(list_trials(services.ledger, record)) == 2


def test_a_retraining_can_be_stopped_and_then_a_fold_is_the_best(services: Gateway) -> None:
    study_id = start(services, trials=1, folds={"count": 3, "retrain": True})
    run_rolling(services, study_id, lambda _, fold: PAPER[fold])
    services.studies.stop(study_id, "enough")
    begun = services.studies.retrain(study_id)
    assert begun.trial == 3
    turn = services.next_actions.next_action(study_id, 3, key="a")
    assert turn.assignment is not None
    assert services.segments.report(turn.assignment.segment, []).action is Action.CONTINUE
    services.studies.stop(study_id, "no time")
    assert services.segments.report(turn.assignment.segment, []).action is Action.STOP
    finish(services, turn, Outcome.STOPPED)
    best = find_best(services.ledger, services.ledger.get(study_id))
    assert best is not None
    assert (best.is_retrained, best.checkpoint_fold) == (False, 0)


def test_there_is_nothing_to_retrain_without_a_whole_trial_or_without_being_asked(
    services: Gateway,
) -> None:
    study_id = start(services, trials=1, folds={"count": 3, "retrain": True})
    finish(services, services.next_actions.next_action(study_id, 0, key="a"), Outcome.FAILED)
    assert services.studies.retrain(study_id).reason == "no trial has completed all of its folds"
    other = start(services, "run-2", trials=1)
    run_rolling(services, other, lambda _, fold: PAPER[fold])
    assert services.studies.retrain(other).reason == "the study has no folds.retrain"
