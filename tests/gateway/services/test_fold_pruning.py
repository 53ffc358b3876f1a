"""A study with folds on a real ledger, as its tasks and agents live it."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from hpo_ops.client import NextAction, NextActionKind, VerdictKind, Waiter
from hpo_ops.core import TrialState
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.best_trial import find_best
from hpo_ops.gateway.queries.experiment_progress import read_experiment
from hpo_ops.gateway.queries.kept_checkpoints import list_kept
from hpo_ops.gateway.queries.study_overview import read_progress
from hpo_ops.gateway.queries.trial_detail import read_trial_detail
from hpo_ops.gateway.queries.trial_lists import list_trials, read_learning_curve
from hpo_ops.gateway.tokens import issue_service_token
from hpo_ops.protocol import Action, Outcome, Report
from tests.gateway.folding import PAPER, finish, run_rolling, seen_by_optuna, start, train
from tests.gateway.web import SECRET, gateway, person


def test_a_trial_is_the_mean_of_its_folds_at_their_best_step(
    services: Gateway, database: str
) -> None:
    study_id = start(services, trials=2)
    curves = {0: PAPER, 1: [(0.5, 0.6), (0.5, 0.6), (0.5, 0.6)]}
    scores = run_rolling(services, study_id, lambda trial, fold: curves[trial][fold])
    assert [score.state for score in scores] == [TrialState.COMPLETED] * 6
    record = services.ledger.get(study_id)

    first, second = list_trials(services.ledger, record)
    assert (first.state, first.best_step) == (TrialState.COMPLETED, 3)
    assert first.value == pytest.approx(0.73)
    assert first.deviation == pytest.approx(0.01)
    assert [fold.value for fold in first.folds] == [0.74, 0.72, 0.73]
    assert [fold.number for fold in second.folds] == [3, 4, 5]
    assert first.reason == "all 3 folds completed; their mean is best at step 3"
    means = [
        report.metrics["accuracy"] for report in read_learning_curve(services.ledger, record, 0)
    ]
    assert [round(mean, 4) for mean in means] == [0.5967, 0.70, 0.73, 0.7267]

    best = find_best(services.ledger, record)
    assert best is not None
    assert (best.trial, best.step, best.folds) == (0, 3, [0.74, 0.72, 0.73])
    assert best.value == pytest.approx(0.73)
    # Without a retraining it is the best fold that stands for it, at the best step of all.
    assert best.checkpoint_uri == f"/{record.key}/trials/0/3"
    assert best.checkpoint_fold == 0
    assert not best.is_retrained

    progress = read_progress(services.ledger, record)
    assert (progress.trials, progress.counts["completed"], progress.begun) == (2, 2, 6)
    assert (
        services.studies.verdict(study_id).reason
        == "all 2 trials have been started and none is waiting"
    )
    services.studies.end(study_id, {})
    told = seen_by_optuna(services, study_id, database)
    assert [trial.params for trial in told] == [first.params, second.params]
    assert [round(trial.value, 4) for trial in told] == [0.73, 0.6]
    assert round(told[0].intermediate_values[2], 4) == 0.7
    assert told[0].user_attrs["folds"] == [0.74, 0.72, 0.73]
    assert told[0].user_attrs["deviation"] == pytest.approx(0.01)


def test_each_fold_of_a_trial_has_its_parameters_and_knows_which_it_is(services: Gateway) -> None:
    study_id = start(services, trials=2, parallelism=6)
    turns = [services.next_actions.next_action(study_id, number, key="a") for number in range(6)]
    told = [turn.assignment for turn in turns]
    assert [(item.trial, item.fold, item.folds) for item in told if item] == [
        (number, number % 3, 3) for number in range(6)
    ]
    params = [item.params for item in told if item]
    assert params[0] == params[1] == params[2] != params[3] == params[4] == params[5]
    again = services.next_actions.next_action(study_id, 4, key="a").assignment
    assert again == told[4]


def test_optuna_hears_of_a_trial_once_its_folds_have_ended(
    services: Gateway, database: str
) -> None:
    study_id = start(services, trials=2, parallelism=4)
    turns = [services.next_actions.next_action(study_id, number, key="a") for number in range(4)]
    for fold in (2, 0):
        train(services, turns[fold], PAPER[fold])
    services.proposals.tell(study_id)
    assert [trial.state.name for trial in seen_by_optuna(services, study_id, database)] == [
        "RUNNING"
    ] * 2
    train(services, turns[1], PAPER[1])
    for _ in range(2):
        services.proposals.tell(study_id)
    told = seen_by_optuna(services, study_id, database)
    assert [trial.state.name for trial in told] == ["COMPLETE", "RUNNING"]
    assert told[0].value == pytest.approx(0.73)


@pytest.mark.parametrize(
    ("places", "waves"), list(enumerate([11, 6, 4, 3, 3, 2, 2, 2, 2, 2, 1], start=1))
)
def test_folds_of_one_trial_take_a_staircase_of_time(
    lasting: Gateway, places: int, waves: int
) -> None:
    """Eleven folds of the same length on P places take as long as ceil(11 / P) of them."""
    study_id = start(lasting, f"staircase {places}", trials=1, folds=11, parallelism=places)
    waiting, seen = set(range(11)), 0
    while waiting:
        turns = {
            number: lasting.next_actions.next_action(study_id, number, key=str(seen))
            for number in waiting
        }
        running = {n: turn for n, turn in turns.items() if turn.kind is NextActionKind.RUN}
        for turn in running.values():
            train(lasting, turn, (0.5,))
        waiting -= set(running)
        seen += 1
    assert seen == waves


def start_pruned(services: Gateway, **changes: Any) -> tuple[int, list[NextAction]]:
    """A study whose second trial is worse in all four folds that it has had."""
    study_id = start(services, **{"folds": 6, "trials": 3, "parallelism": 5, **changes})
    for fold in range(6):
        turn = services.next_actions.next_action(study_id, fold, key="a")
        train(services, turn, (0.5, 0.9 + fold / 100))
    turns = [
        services.next_actions.next_action(study_id, number, key="a") for number in range(6, 11)
    ]
    for turn in turns[:3]:
        train(services, turn, (0.5, 0.6))
    assert (
        services.next_actions.next_action(study_id, 11, key="a").kind is NextActionKind.RUN
    )  # not clear yet
    return study_id, turns


def test_folds_end_when_their_trial_is_worse_than_the_best(
    services: Gateway, database: str
) -> None:
    study_id, turns = start_pruned(services)
    train(services, turns[3], (0.5, 0.6))
    why = "worse than trial 0 in 4 of 6 folds (Wilcoxon: p = 0.0625, below 0.1)"
    # What runs is told at its next report, also when it asks again.
    running = turns[4].assignment
    assert running is not None
    for _ in range(2):
        answer = services.segments.report(
            running.segment, [Report(step=1, metrics={"accuracy": 0.9})]
        )
        assert (answer.action, answer.reason) == (Action.STOP, why)
    services.proposals.tell(study_id)
    assert [trial.state.name for trial in seen_by_optuna(services, study_id, database)] == [
        "COMPLETE",
        "RUNNING",
    ]
    finish(services, turns[4], Outcome.STOPPED, why)
    last = services.next_actions.next_action(study_id, 11, key="a")
    assert last.assignment is not None
    assert services.segments.report(last.assignment.segment, []).action is Action.STOP
    finish(services, last, Outcome.STOPPED, why)

    record = services.ledger.get(study_id)
    pruned = list_trials(services.ledger, record)[1]
    assert (pruned.state, pruned.reason) == (TrialState.PRUNED, why)
    assert pruned.value == pytest.approx(0.6)
    services.proposals.tell(study_id)
    told = seen_by_optuna(services, study_id, database)
    assert told[1].state.name == "PRUNED"
    assert told[1].value == pytest.approx(0.6)
    assert read_progress(services.ledger, record).counts["pruned"] == 1


def test_folds_that_have_not_begun_end_at_their_turn_without_training(services: Gateway) -> None:
    study_id = start(services, folds=6, trials=3, parallelism=1)
    for number in range(10):
        value = 0.9 + number / 100 if number < 6 else 0.5
        train(services, services.next_actions.next_action(study_id, number, key="a"), (value,))
    waiting = [Waiter(study_id=study_id, trial=number) for number in (10, 11)]
    woken = services.next_actions.ready(waiting)
    assert [(item.trial, item.score and item.score.state) for item in woken] == [
        (10, TrialState.PRUNED),
        (11, TrialState.PRUNED),
    ]
    for number in (10, 11):
        for _ in range(2):
            turn = services.next_actions.next_action(study_id, number, key="b")
            assert turn.kind is NextActionKind.DONE
            assert turn.score is not None
            assert (turn.score.state, turn.score.value) == (TrialState.PRUNED, None)
            assert "worse than trial 0" in turn.score.reason
            assert turn.score.params  # the grid shows which trial it would have been
    assert services.next_actions.next_action(study_id, 12, key="b").kind is NextActionKind.RUN
    detail = read_trial_detail(services.ledger, services.ledger.get(study_id), 1)
    assert [segment.trial for segment in detail.segments] == [6, 7, 8, 9]


def test_without_a_threshold_every_fold_is_trained(services: Gateway) -> None:
    study_id = start(services, folds={"count": 6, "prune": None}, trials=2)
    scores = run_rolling(services, study_id, lambda trial, fold: (0.9 - trial + fold / 100,))
    assert {score.state for score in scores} == {TrialState.COMPLETED}


def test_a_failed_fold_fails_its_trial_and_ends_the_others(
    services: Gateway, database: str
) -> None:
    study_id = start(services, folds=4, trials=2, parallelism=3)
    first, second, third = (
        services.next_actions.next_action(study_id, number, key="a") for number in range(3)
    )
    train(services, first, (0.5,))
    for _ in range(2):  # who says it again changes nothing
        finish(services, second, Outcome.FAILED, "no such file")
    why = "fold 2 of 4 failed: no such file"
    assert third.assignment is not None
    assert services.segments.report(third.assignment.segment, []).reason == why
    last = services.next_actions.next_action(study_id, 3, key="a")
    assert last.score is not None
    assert (last.score.state, last.score.reason) == (TrialState.PRUNED, why)
    finish(services, third, Outcome.STOPPED, why)
    record = services.ledger.get(study_id)
    trial = list_trials(services.ledger, record)[0]
    assert (trial.state, trial.reason) == (TrialState.FAILED, why)
    assert find_best(services.ledger, record) is None
    # The next trial goes on as if nothing had been.
    turn = services.next_actions.next_action(study_id, 4, key="a")
    assert turn.assignment is not None
    assert turn.assignment.fold == 0
    assert [item.state.name for item in seen_by_optuna(services, study_id, database)] == [
        "FAIL",
        "RUNNING",
    ]


def test_a_fold_that_may_try_again_does_not_fail_its_trial(services: Gateway) -> None:
    study_id = start(services, trials=1, retries=1)
    finish(
        services, services.next_actions.next_action(study_id, 0, key="a"), Outcome.FAILED, "flaky"
    )
    scores = run_rolling(services, study_id, lambda _, fold: PAPER[fold])
    assert [score.state for score in scores] == [TrialState.COMPLETED] * 3


def test_a_lost_task_fails_its_trial(services: Gateway) -> None:
    study_id = start(services, trials=1, parallelism=1)
    services.next_actions.next_action(study_id, 0, key="a")
    assert services.next_actions.abandon(study_id, [0]) == [0]
    assert services.next_actions.next_action(study_id, 1, key="a").kind is NextActionKind.DONE
    trial = list_trials(services.ledger, services.ledger.get(study_id))[0]
    assert trial.state is TrialState.FAILED


def test_the_target_is_for_the_mean_and_not_for_one_fold(services: Gateway) -> None:
    metric = {"name": "accuracy", "direction": "maximize", "target": 0.72}
    study_id = start(services, trials=3, metric=metric)
    for fold in range(2):
        train(services, services.next_actions.next_action(study_id, fold, key="a"), PAPER[fold])
        assert services.studies.verdict(study_id).kind is VerdictKind.GO_ON
    train(services, services.next_actions.next_action(study_id, 2, key="a"), PAPER[2])
    verdict = services.studies.verdict(study_id)
    assert verdict.kind is VerdictKind.STOP
    assert verdict.reason == "target 0.72 reached: trial 0 has 0.73"


def test_a_study_that_is_stopped_tells_of_trials_that_are_not_whole(
    services: Gateway, database: str
) -> None:
    study_id = start(services, trials=2, parallelism=2)
    turns = [services.next_actions.next_action(study_id, number, key="a") for number in range(2)]
    train(services, turns[0], PAPER[0])
    services.studies.stop(study_id, "enough")
    finish(services, turns[1], Outcome.STOPPED)
    services.studies.end(study_id, {})
    told = seen_by_optuna(services, study_id, database)
    assert [trial.state.name for trial in told] == ["PRUNED"]
    record = services.ledger.get(study_id)
    assert list_trials(services.ledger, record)[0].state is TrialState.PRUNED
    assert find_best(services.ledger, record) is None


def test_a_gateway_that_starts_anew_knows_the_same_trials(
    services: Gateway, database: str
) -> None:
    _, turns = start_pruned(services)
    services.ledger._views.clear()
    train(services, turns[3], (0.5, 0.6))
    assert turns[4].assignment is not None
    answer = services.segments.report(turns[4].assignment.segment, [])
    assert answer.action is Action.STOP


@pytest.mark.parametrize("reproducible", [False, True])
def test_rounds_run_folds_too(services: Gateway, database: str, reproducible: bool) -> None:
    study_id = start(
        services,
        flow="rounds",
        reproducible=reproducible,
        folds=6,
        trials=3,
        parallelism=2,
    )
    values = [0.9, 0.5, 0.95]
    for number in range(10):
        group = services.rounds.sample(study_id, number)
        for member in group.trials:
            trial, fold = divmod(member.trial, 6)
            turn = services.next_actions.next_action(study_id, member.trial, key="a")
            if turn.kind is NextActionKind.RUN:
                train(services, turn, (values[trial] + fold / 1000,))
        services.rounds.collect(study_id, number, [])
        if services.studies.verdict(study_id).kind is VerdictKind.STOP:
            break
    trials = list_trials(services.ledger, services.ledger.get(study_id))
    assert [trial.state.value for trial in trials] == ["completed", "pruned", "completed"]
    assert [fold.state.value for fold in trials[1].folds] == ["completed"] * 4 + ["pruned"] * 2
    assert number == 7  # 6, 4 and 6 folds, two at a time
    told = seen_by_optuna(services, study_id, database)
    assert [trial.state.name for trial in told] == ["COMPLETE", "PRUNED", "COMPLETE"]


def test_the_same_seed_gives_the_same_study_of_folds(services: Gateway) -> None:
    found = []
    for run in ("run-1", "run-2"):
        study_id = start(
            services, run, flow="rounds", reproducible=True, folds=6, trials=3, parallelism=4
        )
        for number in range(6):
            members = [member.trial for member in services.rounds.sample(study_id, number).trials]
            turns = {
                part: services.next_actions.next_action(study_id, part, key="a")
                for part in members
            }
            for part in members if run == "run-1" else reversed(members):
                if turns[part].kind is NextActionKind.RUN:
                    train(services, turns[part], (0.9 - (part // 6) * 0.2 + part % 6 / 1000,))
            services.rounds.collect(study_id, number, [])
        summaries = list_trials(services.ledger, services.ledger.get(study_id))
        found.append(
            [(item.params, item.value, [fold.state for fold in item.folds]) for item in summaries]
        )
    assert found[0] == found[1]
    assert "pruned" in str(found[0])


def test_a_fold_that_was_trained_before_is_served_and_another_fold_is_not(
    services: Gateway,
) -> None:
    space = {"lr": {"choices": [0.1]}, "width": {"choices": [4]}}
    study_id = start(services, trials=2, parallelism=1, cache=True, space=space)
    trained = []
    for number in range(6):
        turn = services.next_actions.next_action(study_id, number, key="a")
        if turn.kind is NextActionKind.RUN:
            train(services, turn, PAPER[number % 3])
            trained.append(number)
    assert trained == [0, 1, 2]
    record = services.ledger.get(study_id)
    first, second = list_trials(services.ledger, record)
    assert [fold.value for fold in second.folds] == [fold.value for fold in first.folds]
    assert read_progress(services.ledger, record).served == 1


def test_a_trial_that_a_constraint_refuses_is_refused_as_a_whole(services: Gateway) -> None:
    space = {"lr": {"choices": [0.1]}, "width": {"choices": [4]}}
    study_id = start(services, trials=1, space=space, constraints=["width >= 8"])
    for number in range(3):
        turn = services.next_actions.next_action(study_id, number, key="a")
        assert turn.score is not None
        assert turn.score.state is TrialState.PRUNED
    trial = list_trials(services.ledger, services.ledger.get(study_id))[0]
    assert (trial.state, trial.is_feasible) == (TrialState.PRUNED, False)
    assert "violates width >= 8" in trial.reason


def test_only_checkpoints_of_the_best_folds_are_kept(services: Gateway) -> None:
    study_id = start(services, trials=2, checkpoints={"keep": 1})
    curves = [PAPER, [(0.5, 0.6)] * 3]
    run_rolling(services, study_id, lambda trial, fold: curves[trial][fold])
    record = services.ledger.get(study_id)
    assert list_kept(services.ledger, record) == [(0, 3)]
    repeat = read_experiment(services.ledger, record).repeats[0]
    assert [value and round(value, 4) for value in repeat.curve] == [0.73, 0.73]


def test_tasks_and_people_see_whole_trials_over_http(services: Gateway, web: TestClient) -> None:
    study_id = start(services, trials=1, folds={"count": 3, "retrain": True})
    run_rolling(services, study_id, lambda _, fold: PAPER[fold])
    client = gateway(web, issue_service_token(SECRET))
    begun = client.retrain(study_id)
    assert begun.trial == 3
    (trial,) = client.trials(study_id)
    assert [fold.value for fold in trial.folds] == [0.74, 0.72, 0.73]
    best = client.best(study_id)
    assert best is not None
    assert (best.folds, best.checkpoint_trial) == ([0.74, 0.72, 0.73], 0)
    progress = client.progress(study_id)
    assert (progress.folds, progress.begun, progress.retraining) == (3, 4, 3)
    turn = client.next_action("small", "run-1", 3, key="a")
    assert turn.assignment is not None
    assert turn.study is not None
    assert (turn.assignment.fold, turn.assignment.folds) == (None, 3)
    refused = web.post(f"/hpo/api/v1/studies/{study_id}/retraining", headers=person("ann"))
    assert refused.status_code == 403
