"""The life of a study on a real ledger, as its tasks and agents live it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import optuna
import pytest

from hpo_ops.client import (
    NextAction,
    NextActionKind,
    StudyRequest,
    TrialResult,
    VerdictKind,
    Waiter,
)
from hpo_ops.core import TrialState
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.best_trial import find_best
from hpo_ops.gateway.queries.trial_lists import list_trials, read_learning_curve
from hpo_ops.gateway.services import _live_slots
from hpo_ops.gateway.services.segment_service import SegmentOverError
from hpo_ops.protocol import Action, Checkpoint, Outcome, Report, SegmentResult
from tests.studies import study_data


def start(services: Gateway, run_id: str = "run-1", **changes: Any) -> int:
    request = StudyRequest(config=study_data(**changes), dag_id="small", run_id=run_id)
    return services.studies.start(request).id


def train(services: Gateway, turn: NextAction, value: float) -> Action:
    """Trains a segment as an agent would, one report a step, until told to leave or done."""
    assignment = turn.assignment
    assert assignment is not None
    assert assignment.until_step is not None
    action = Action.CONTINUE
    step = assignment.from_step
    while step < assignment.until_step and action is Action.CONTINUE:
        step += 1
        report = Report(step=step, metrics={"accuracy": value + step / 1000}, seconds=0.1)
        action = services.segments.report(assignment.segment, [report]).action
        saved = Checkpoint(step=step, uri=f"s3://x/{assignment.trial}/{step}", files=1, bytes=9)
        services.segments.checkpoint(assignment.segment, saved)
    outcome = {
        Action.CONTINUE: Outcome.COMPLETED,
        Action.PAUSE: Outcome.PAUSED,
        Action.STOP: Outcome.STOPPED,
    }[action]
    services.segments.finish(assignment.segment, SegmentResult(outcome=outcome, step=step))
    return action


def run_round(services: Gateway, study_id: int, number: int) -> list[TrialResult]:
    group = services.rounds.sample(study_id, number)
    scores = []
    for member in group.trials:
        trial = member.trial
        turn = services.next_actions.next_action(study_id, trial, key=f"{number}/{trial}")
        while turn.kind is NextActionKind.RUN:
            train(services, turn, value=member.params["lr"])
            turn = services.next_actions.next_action(
                study_id, trial, key=f"{number}/{trial}/again"
            )
        assert turn.score is not None
        scores.append(turn.score)
    services.rounds.collect(study_id, number, scores)
    return scores


def run_study(services: Gateway, study_id: int) -> int:
    rounds = 0
    while True:
        run_round(services, study_id, rounds)
        rounds += 1
        if services.studies.verdict(study_id).kind is VerdictKind.STOP:
            return rounds


def test_a_study_runs_all_its_trials_and_optuna_sees_them(
    services: Gateway, database: str
) -> None:
    study_id = start(services)
    assert run_study(services, study_id) == 2
    services.studies.end(study_id, {})

    record = services.ledger.get(study_id)
    summaries = list_trials(services.ledger, record)
    assert len(summaries) == 6
    assert all(summary.state.is_finished for summary in summaries)
    seen = optuna.load_study(study_name=record.key, storage=database).trials
    assert [trial.params for trial in seen] == [summary.params for summary in summaries]
    states = {"completed": "COMPLETE", "pruned": "PRUNED"}
    assert [trial.state.name for trial in seen] == [
        states[summary.state.value] for summary in summaries
    ]
    complete = [trial for trial in seen if trial.state.name == "COMPLETE"]
    assert complete
    for trial in complete:
        assert trial.value == summaries[trial.number].value
        assert len(trial.intermediate_values) == 9


def test_the_best_trial_names_its_best_checkpoint(services: Gateway) -> None:
    study_id = start(services)
    run_study(services, study_id)
    record = services.ledger.get(study_id)
    best = find_best(services.ledger, record)
    assert best is not None
    values = [summary.value for summary in list_trials(services.ledger, record)]
    assert best.value == max(value for value in values if value is not None)
    assert best.checkpoint_step == best.step
    assert best.checkpoint_uri == f"/{record.key}/trials/{best.trial}/{best.step}"


def test_sampling_a_round_again_asks_for_no_new_trials(services: Gateway) -> None:
    study_id = start(services)
    first = services.rounds.sample(study_id, 0)
    assert services.rounds.sample(study_id, 0) == first
    assert len(services.ledger.get(study_id).config.space) == 2
    with services.ledger.study(study_id) as session:
        assert len(session.view.trials) == 3


def test_concurrent_asks_give_each_round_its_own_trials(services: Gateway) -> None:
    study_id = start(services, trials=12, parallelism=2)
    with ThreadPoolExecutor(8) as pool:
        groups = list(pool.map(lambda _: services.rounds.sample(study_id, 0), range(8)))
    assert all(group == groups[0] for group in groups)
    assert [member.trial for member in groups[0].trials] == [0, 1]


def test_an_ask_that_crashed_after_optuna_is_found_again(services: Gateway) -> None:
    study_id = start(services)
    with services.ledger.study(study_id) as session:
        session.rounds.add(0, [session.add_trial()], "reserved before the crash")
        record = session.record
    asked = services.proposals.search(record).ask(0)  # and then the process was killed
    group = services.rounds.sample(study_id, 0)
    assert [member.params for member in group.trials] == [asked]


def test_the_same_try_gets_the_same_segment_and_another_one_takes_over(services: Gateway) -> None:
    study_id = start(services)
    services.rounds.sample(study_id, 0)
    first = services.next_actions.next_action(study_id, 0, key="try 1")
    assert (
        services.next_actions.next_action(study_id, 0, key="try 1").assignment == first.assignment
    )
    assert first.assignment is not None
    services.segments.report(first.assignment.segment, [Report(step=1, metrics={"accuracy": 0.5})])
    saved = Checkpoint(step=1, uri="s3://x/0/1", files=1, bytes=1)
    services.segments.checkpoint(first.assignment.segment, saved)

    second = services.next_actions.next_action(study_id, 0, key="try 2")

    assert second.assignment is not None
    assert second.assignment.segment != first.assignment.segment
    assert second.assignment.from_step == 1
    with pytest.raises(SegmentOverError):
        services.segments.report(first.assignment.segment, [])


def test_a_result_is_absorbed_once_whoever_brings_it(services: Gateway) -> None:
    study_id = start(services, retries=5)
    services.rounds.sample(study_id, 0)
    turn = services.next_actions.next_action(study_id, 0, key="a")
    assert turn.assignment is not None
    failed = SegmentResult(outcome=Outcome.FAILED, reason="boom", exit_code=1)
    services.segments.finish(turn.assignment.segment, failed)
    services.segments.finish(turn.assignment.segment, failed)
    with services.ledger.study(study_id) as session:
        row = session.trials.find(0)
    assert row is not None
    assert row.failures == 1


def test_reports_that_come_twice_count_once(services: Gateway) -> None:
    study_id = start(services)
    services.rounds.sample(study_id, 0)
    turn = services.next_actions.next_action(study_id, 0, key="a")
    assert turn.assignment is not None
    batch = [Report(step=step, metrics={"accuracy": 0.1 * step}) for step in (1, 2)]
    services.segments.report(turn.assignment.segment, batch)
    services.segments.report(turn.assignment.segment, batch)
    curve = read_learning_curve(services.ledger, services.ledger.get(study_id), 0)
    assert [point.step for point in curve] == [1, 2]


def test_failing_code_is_tried_again_as_often_as_the_study_says(services: Gateway) -> None:
    study_id = start(services, retries=1)
    services.rounds.sample(study_id, 0)
    for key in ("first", "second"):
        turn = services.next_actions.next_action(study_id, 0, key=key)
        assert turn.kind is NextActionKind.RUN
        assert turn.assignment is not None
        services.segments.finish(
            turn.assignment.segment, SegmentResult(outcome=Outcome.FAILED, reason="boom")
        )
    turn = services.next_actions.next_action(study_id, 0, key="third")
    assert turn.kind is NextActionKind.DONE
    assert turn.score is not None
    assert turn.score.state is TrialState.FAILED
    assert "boom" in turn.score.reason


def test_a_target_ends_the_study_and_everything_that_runs(services: Gateway) -> None:
    study_id = start(services, metric={"name": "accuracy", "direction": "maximize", "target": 0.9})
    services.rounds.sample(study_id, 0)
    winner, other = (
        services.next_actions.next_action(study_id, trial, key="a").assignment for trial in (0, 1)
    )
    assert winner is not None
    assert other is not None
    assert services.segments.report(other.segment, []).action is Action.CONTINUE
    best = [Report(step=1, metrics={"accuracy": 0.95})]
    assert services.segments.report(winner.segment, best).action is Action.STOP
    assert services.segments.report(other.segment, []).action is Action.STOP
    services.segments.finish(winner.segment, SegmentResult(outcome=Outcome.STOPPED, step=1))
    services.segments.finish(other.segment, SegmentResult(outcome=Outcome.STOPPED, step=0))
    verdict = services.studies.verdict(study_id)
    assert verdict.kind is VerdictKind.STOP
    assert verdict.reason == "target 0.9 reached: trial 0 has 0.95"
    never_ran = services.next_actions.next_action(study_id, 2, key="a").score
    assert never_ran is not None
    assert never_ran.state is TrialState.PRUNED
    with services.ledger.study(study_id) as session:
        states = [trial.state for trial in session.view.trials]
    assert states == [TrialState.COMPLETED, TrialState.PRUNED, TrialState.PRUNED]


def test_the_same_seed_gives_the_same_study_twice(services: Gateway) -> None:
    def run(run_id: str) -> list[tuple[object, ...]]:
        study_id = start(
            services, run_id, reproducible=True, sampler="tpe", trials=14, parallelism=4
        )
        run_study(services, study_id)
        record = services.ledger.get(study_id)
        return [
            (summary.params, summary.value, summary.state, summary.reason)
            for summary in list_trials(services.ledger, record)
        ]

    first = run("one")
    assert len(first) == 14
    assert first == run("two")
    assert {state for _, _, state, _ in first} == {TrialState.COMPLETED, TrialState.PRUNED}


def test_a_view_folded_afresh_is_the_view_that_was_kept(services: Gateway) -> None:
    study_id = start(services)
    run_study(services, study_id)
    with services.ledger.study(study_id) as session:
        kept = session.view.trials
    services.ledger._views.clear()
    with services.ledger.study(study_id) as session:
        assert session.view.trials == kept


def test_trials_past_the_parallelism_wait_with_a_reason(services: Gateway) -> None:
    study_id = start(services, trials=6, parallelism=3)
    with services.ledger.engine.begin() as connection:
        from hpo_ops.ledger.leases import set_capacity

        set_capacity(connection, "local", 2)
    services.rounds.sample(study_id, 0)
    turns = [services.next_actions.next_action(study_id, trial, key="a") for trial in range(3)]
    assert [turn.kind for turn in turns] == [
        NextActionKind.RUN,
        NextActionKind.RUN,
        NextActionKind.WAIT,
    ]
    assert turns[2].reason == "2 of 2 units of the pool local are leased, and 1 needed"
    assert turns[0].assignment is not None
    services.segments.finish(
        turns[0].assignment.segment, SegmentResult(outcome=Outcome.COMPLETED, step=9)
    )
    assert services.next_actions.next_action(study_id, 2, key="a").kind is NextActionKind.RUN


def run_rolling(services: Gateway, study_id: int, trials: int, parallelism: int) -> int:
    """Runs a rolling study as its tasks would, some at once; returns the most that ran at once."""
    running: dict[int, NextAction] = {}
    most = 0
    over: set[int] = set()
    for turns in range(1000):
        for number in range(trials):
            if number in over or number in running:
                continue
            turn = services.next_actions.next_action(study_id, number, key=f"{number}/{turns}")
            if turn.kind is NextActionKind.RUN:
                running[number] = turn
            elif turn.kind is NextActionKind.DONE:
                over.add(number)
        most = max(most, len(running))
        assert len(running) <= parallelism
        if len(over) == trials:
            return most
        number, turn = next(iter(running.items()))
        assert turn.assignment is not None
        value = float(turn.assignment.params["lr"] or 0)
        train(services, turn, value=value)
        del running[number]
    raise AssertionError("the study does not end")


def test_the_next_trial_of_a_large_round_waits_in_its_worker(services: Gateway) -> None:
    study_id = start(services, parallelism=2, round_size=5, trials=5)
    assert len(services.rounds.sample(study_id, 0).trials) == 5
    turns = [services.next_actions.next_action(study_id, number, key="a") for number in range(5)]
    assert [turn.kind for turn in turns] == [NextActionKind.RUN] * 2 + [NextActionKind.WAIT] * 3
    assert [turn.is_next for turn in turns] == [False, False, True, False, False]
    train(services, turns[0], value=0.5)
    assert services.next_actions.next_action(study_id, 2, key="a").kind is NextActionKind.RUN
    assert services.next_actions.next_action(study_id, 3, key="a").is_next


@pytest.mark.parametrize("scheduler", ["default", "asha", "asha_promoting"])
def test_a_rolling_study_runs_every_trial_within_its_parallelism(
    services: Gateway, scheduler: str
) -> None:
    study_id = start(
        services,
        flow="rolling",
        trials=10,
        parallelism=3,
        scheduler={"name": scheduler, "max_steps": 9},
    )
    assert run_rolling(services, study_id, 10, 3) == 3
    services.studies.end(study_id, {})
    record = services.ledger.get(study_id)
    summaries = list_trials(services.ledger, record)
    assert [summary.trial for summary in summaries] == list(range(10))
    assert all(summary.state.is_finished for summary in summaries)
    assert any(summary.state is TrialState.COMPLETED for summary in summaries)
    if scheduler == "asha_promoting":
        assert any(summary.segments > 1 for summary in summaries)


def test_a_rolling_trial_is_proposed_when_it_starts(services: Gateway) -> None:
    study_id = start(services, flow="rolling", trials=4, parallelism=1)
    first = services.next_actions.next_action(study_id, 0, key="a")
    assert first.kind is NextActionKind.RUN
    waiting = services.next_actions.next_action(study_id, 1, key="a")
    assert waiting.kind is NextActionKind.WAIT
    assert waiting.is_next
    with services.ledger.study(study_id) as session:
        assert len(session.view.trials) == 1  # trial 1 has no parameters before it starts
    train(services, first, value=0.5)
    second = services.next_actions.next_action(study_id, 1, key="a")
    assert second.kind is NextActionKind.RUN


def test_a_paused_study_holds_everything_and_goes_on_from_its_checkpoints(
    services: Gateway,
) -> None:
    study_id = start(services, flow="rolling", trials=2, parallelism=1)
    turn = services.next_actions.next_action(study_id, 0, key="a")
    assert turn.assignment is not None
    segment = turn.assignment.segment
    services.segments.report(segment, [Report(step=1, metrics={"accuracy": 0.5})])
    services.segments.checkpoint(segment, Checkpoint(step=1, uri="s3://x/0/1", files=1, bytes=1))
    services.studies.pause(study_id, "the cluster is needed")
    assert services.segments.report(segment, []).action is Action.PAUSE
    services.segments.finish(segment, SegmentResult(outcome=Outcome.PAUSED, step=1))
    held = services.next_actions.next_action(study_id, 0, key="b")
    assert (held.kind, held.reason) == (
        NextActionKind.WAIT,
        "the study is paused: the cluster is needed",
    )
    assert services.studies.verdict(study_id).kind is VerdictKind.WAIT
    assert services.next_actions.ready([Waiter(study_id=study_id, trial=0)]) == []
    services.studies.resume(study_id)
    (woken,) = services.next_actions.ready([Waiter(study_id=study_id, trial=0)])
    assert woken.trial == 0
    again = services.next_actions.next_action(study_id, 0, key="c")
    assert again.assignment is not None
    assert again.assignment.from_step == 1


def test_what_waits_is_ended_without_a_worker_when_the_study_stops(services: Gateway) -> None:
    study_id = start(services, flow="rolling", trials=5, parallelism=1)
    turn = services.next_actions.next_action(study_id, 0, key="a")
    assert turn.assignment is not None
    services.next_actions.next_action(study_id, 1, key="a")
    services.studies.stop(study_id, "enough")
    answers = services.next_actions.ready(
        [Waiter(study_id=study_id, trial=1), Waiter(study_id=study_id)]
    )
    assert [(answer.trial, answer.reason) for answer in answers] == [
        (1, "enough"),
        (None, "enough"),
    ]
    assert answers[0].score is not None
    assert answers[0].score.state is TrialState.PRUNED


def test_a_running_study_can_be_changed_within_its_limits(services: Gateway) -> None:
    study_id = start(services, trials=6, parallelism=2)
    services.rounds.sample(study_id, 0, 3)
    changed = services.studies.change(
        study_id, {"parallelism": 4, "trials": 8, "budget.wall": "1h"}
    )
    assert (changed["parallelism"], changed["trials"], changed["budget.wall"]) == (4, 8, 3600)
    with pytest.raises(ValueError, match="parallelism is 5, but must be 4 or less"):
        services.studies.change(study_id, {"parallelism": 5})
    with pytest.raises(ValueError, match="seed is not a key that can be changed here"):
        services.studies.change(study_id, {"seed": 1})
    group = services.rounds.sample(study_id, 1, 2)
    assert len(group.trials) == 4


def test_the_last_round_takes_all_that_is_left(services: Gateway) -> None:
    study_id = start(services, trials=6, parallelism=2)
    assert len(services.rounds.sample(study_id, 0, 3).trials) == 2
    services.studies.change(study_id, {"trials": 11})
    run = services.rounds.sample(study_id, 1, 2)
    assert len(run.trials) == 5  # 9 are left in two rounds
    assert len(services.rounds.sample(study_id, 2, 1).trials) == 4


@pytest.mark.parametrize(
    ("stop", "failing", "reason"),
    [
        ({"patience": 2}, False, "no better value in the last 2 trials (patience 2)"),
        ({"failures": 0.4}, True, "5 of 5 trials failed (at most 40% may)"),
    ],
)
def test_patience_and_failures_end_a_study(
    services: Gateway, stop: dict[str, Any], failing: bool, reason: str
) -> None:
    study_id = start(services, flow="rolling", trials=12, parallelism=1, stop=stop)
    for number in range(12):
        turn = services.next_actions.next_action(study_id, number, key="a")
        if turn.kind is NextActionKind.DONE:
            break
        assert turn.assignment is not None
        segment = turn.assignment.segment
        if failing:
            services.segments.finish(
                segment, SegmentResult(outcome=Outcome.FAILED, reason="boom", exit_code=1)
            )
            continue
        best = Report(step=9, metrics={"accuracy": 0.9 - number / 100})
        services.segments.report(segment, [best])
        services.segments.finish(segment, SegmentResult(outcome=Outcome.COMPLETED, step=9))
    assert services.ledger.get(study_id).reason == reason


@pytest.mark.parametrize(
    ("scheduler", "action"), [("asha", Action.STOP), ("asha_promoting", Action.PAUSE)]
)
def test_what_a_trial_was_asked_stands_although_it_trains_on(
    services: Gateway, scheduler: str, action: Action
) -> None:
    study_id = start(
        services,
        flow="rolling",
        trials=3,
        parallelism=3,
        scheduler={"name": scheduler, "max_steps": 9},
    )
    segments = []
    for number in range(3):
        turn = services.next_actions.next_action(study_id, number, key="a")
        assert turn.assignment is not None
        segments.append(turn.assignment.segment)
        first = Report(step=1, metrics={"accuracy": 0.9 - number / 10})
        answer = services.segments.report(turn.assignment.segment, [first])
    assert answer.action is action
    late = Report(step=2, metrics={"accuracy": 0.99})
    assert services.segments.report(segments[-1], [late]) == answer
    assert services.segments.report(segments[-1], []) == answer


def test_a_trial_that_trained_past_its_rung_waits_for_its_promotion(services: Gateway) -> None:
    study_id = start(
        services,
        flow="rolling",
        trials=6,
        parallelism=1,
        scheduler={"name": "asha_promoting", "max_steps": 9},
    )
    for number in range(3):
        turn = services.next_actions.next_action(study_id, number, key="a")
        assert turn.assignment is not None
        segment = turn.assignment.segment
        for step in (1, 2):  # the decision at step 1 is heard after step 2
            services.segments.report(
                segment, [Report(step=step, metrics={"accuracy": 0.5 - number / 10})]
            )
        services.segments.finish(segment, SegmentResult(outcome=Outcome.PAUSED, step=2))
    with services.ledger.study(study_id) as session:
        granted, _ = _live_slots.fill_slots(session, 1)
    assert granted == [0]  # the best of three is promoted; the others wait
    with services.ledger.study(study_id) as session:
        session.trials.move(0, TrialState.COMPLETED, "done")
        granted, _ = _live_slots.fill_slots(session, 1)
    assert granted == [3]  # a new one, none of those that wait


def test_a_trial_whose_task_has_ended_for_good_fails_and_the_study_goes_on(
    services: Gateway,
) -> None:
    study_id = start(services, flow="rolling", trials=2, parallelism=1)
    assert services.next_actions.next_action(study_id, 0, key="a").kind is NextActionKind.RUN
    assert services.next_actions.next_action(study_id, 1, key="a").kind is NextActionKind.WAIT
    assert services.next_actions.abandon(study_id, [0, 1]) == [0]
    assert services.next_actions.abandon(study_id, [0, 1]) == []
    assert services.next_actions.next_action(study_id, 1, key="b").kind is NextActionKind.RUN
    with services.ledger.study(study_id) as session:
        row = session.trials.find(0)
    assert row is not None
    assert (row.state, row.reason) == ("failed", "its task has ended without a result")


def test_a_study_that_was_paused_between_rounds_goes_on(services: Gateway) -> None:
    study_id = start(services)
    run_round(services, study_id, 0)
    services.studies.pause(study_id, "lunch")
    verdict = services.studies.verdict(study_id)
    assert verdict.kind is VerdictKind.WAIT
    wait = [Waiter(study_id=study_id, seen=verdict.seen)]
    assert services.next_actions.ready(wait) == []
    services.studies.resume(study_id)
    assert [answer.trial for answer in services.next_actions.ready(wait)] == [None]
    assert services.studies.verdict(study_id).kind is VerdictKind.GO_ON


def test_results_that_are_told_at_the_same_time_are_told_once(
    services: Gateway, database: str
) -> None:
    study_id = start(services, flow="rolling", trials=6, parallelism=6)
    for number in range(6):
        turn = services.next_actions.next_action(study_id, number, key="a")
        assert turn.assignment is not None
        segment = turn.assignment.segment
        services.segments.report(segment, [Report(step=9, metrics={"accuracy": number / 10})])
        services.segments.finish(segment, SegmentResult(outcome=Outcome.COMPLETED, step=9))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: services.proposals.tell(study_id), range(6)))
    key = services.ledger.get(study_id).key
    seen = optuna.load_study(study_name=key, storage=database).trials
    assert [trial.value for trial in seen] == [number / 10 for number in range(6)]
