"""The gateway over HTTP: a whole life."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import optuna
import pytest
from fastapi.testclient import TestClient

from hpo_ops.client import (
    GatewayClient,
    GatewayRefusedError,
    GatewayUnreachableError,
    NextAction,
    NextActionKind,
    StudyRequest,
    VerdictKind,
)
from hpo_ops.config import read_entered
from hpo_ops.core import TrialState
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.tokens import issue_service_token
from hpo_ops.ledger import Ledger
from hpo_ops.protocol import (
    Action,
    Cause,
    Checkpoint,
    Outcome,
    Provenance,
    Report,
    SegmentResult,
)
from tests.gateway.web import (
    SECRET,
    agent,
    begin,
    gateway,
    segment_of,
)
from tests.studies import study_data

RUN = ("small", "manual__2026-01-01T00:00:00+00:00")


def train(web: TestClient, turn: NextAction, value: float) -> None:
    assert turn.assignment is not None
    assert turn.assignment.until_step is not None
    me, step, action = agent(web, turn), turn.assignment.from_step, Action.CONTINUE
    while step < turn.assignment.until_step and action is Action.CONTINUE:
        step += 1
        reports = [Report(step=step, metrics={"accuracy": value + step / 1000}, seconds=0.1)]
        action = me.report(reports).action
        uri = f"s3://x/{turn.assignment.trial}/{step}"
        me.checkpoint(Checkpoint(step=step, uri=uri, files=1, bytes=9))
    outcome = Outcome.COMPLETED if action is Action.CONTINUE else Outcome.STOPPED
    me.finish(SegmentResult(outcome=outcome, step=step))


def test_a_study_lives_its_whole_life_over_http(
    web: TestClient, services: Gateway, database: str
) -> None:
    tasks = gateway(web, issue_service_token(SECRET))
    request = StudyRequest(config=study_data(), dag_id=RUN[0], run_id=RUN[1])
    study = tasks.start_study(request)
    assert tasks.start_study(request) == study

    scores = []
    for number in range(10):
        group = tasks.sample(study.id, number, rounds_left=10 - number)
        round_scores = []
        for member in group.trials:
            turn = tasks.next_action(*RUN, member.trial, key=f"{number}")
            while turn.kind is NextActionKind.RUN:
                train(web, turn, value=member.params["lr"])
                turn = tasks.next_action(*RUN, member.trial, key=f"{number} again")
            assert turn.score is not None
            round_scores.append(turn.score)
        tasks.collect(study.id, number, round_scores)
        scores += round_scores
        if tasks.verdict(study.id).kind is VerdictKind.STOP:
            break
    tasks.end_study(study.id, {"note": "done"})

    ann = gateway(web, "person ann")
    progress = ann.find("small")
    assert progress == ann.progress(study.id)
    assert progress.state == "ended"
    assert sum(progress.counts.values()) == progress.trials == 6
    assert {score.state for score in scores} <= {TrialState.COMPLETED, TrialState.PRUNED}
    trials = ann.trials(study.id)
    assert [trial.trial for trial in trials] == list(range(6))
    best = ann.best(study.id)
    assert best is not None
    assert best.value == max(trial.value for trial in trials if trial.value is not None)
    assert best.checkpoint_uri == f"/{study.key}/trials/{best.trial}/{best.step}"
    assert (best.trial, best.step) in ann.kept_checkpoints(study.id)
    seen = optuna.load_study(study_name=study.key, storage=database).trials
    assert [trial.params for trial in seen] == [trial.params for trial in trials]
    assert all(trial.state.is_finished() for trial in seen)


def test_history_can_be_read_in_pages(lasting_web: TestClient, lasting: Gateway) -> None:
    study_id, _ = begin(lasting)
    bob = gateway(lasting_web, "person bob")
    whole = bob.events(study_id)
    ids = [event["id"] for event in whole]
    assert ids == sorted(ids)
    pages, after = [], 0
    while page := bob.events(study_id, after=after, limit=2):
        assert len(page) <= 2
        pages += page
        after = page[-1]["id"]
    assert pages == whole


def test_the_client_says_what_a_refusal_means(lasting_web: TestClient, lasting: Gateway) -> None:
    study_id, turn = begin(lasting)
    tasks, eve = (
        gateway(lasting_web, issue_service_token(SECRET)),
        gateway(lasting_web, "person eve"),
    )
    with pytest.raises(LookupError, match="there is no study none"):
        tasks.find("none")
    with pytest.raises(LookupError, match=f"there is no study with the id {study_id}"):
        eve.progress(study_id)
    with pytest.raises(GatewayRefusedError, match="only tasks of the study's DAG run"):
        eve.verdict(study_id)
    with pytest.raises(GatewayRefusedError, match="log in first"):
        gateway(lasting_web, "nonsense").progress(study_id)
    bad = StudyRequest(config=study_data(trials=0), dag_id="small", run_id="r2")
    with pytest.raises(ValueError, match="trials is 0, but must be 1 or more"):
        tasks.start_study(bad)
    me = agent(lasting_web, turn)
    me.finish(SegmentResult(outcome=Outcome.STOPPED, step=0))
    with pytest.raises(GatewayRefusedError, match="has ended"):
        me.report([])


def test_a_failure_inside_is_tried_a_few_times_only(
    lasting_web: TestClient, lasting: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail(*_: object, **__: object) -> None:
        calls.append(1)
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(Ledger, "get", fail)
    tasks = gateway(lasting_web, issue_service_token(SECRET))
    tasks._sleep = lambda _: None
    with pytest.raises(GatewayUnreachableError):
        tasks.progress(1)
    assert 1 < len(calls) < 10


# -- the last words of a segment, and the wait for a place ------------------------------------


def rolling(web: TestClient, **changes: Any) -> tuple[GatewayClient, int]:
    tasks = gateway(web, issue_service_token(SECRET))
    data = study_data(flow="rolling", trials=4, parallelism=1, **changes)
    request = StudyRequest(config=data, dag_id=RUN[0], run_id=RUN[1])
    return tasks, tasks.start_study(request).id


def test_the_last_reports_and_the_score_go_with_the_end(web: TestClient) -> None:
    tasks, study = rolling(web, scheduler={"name": "default", "max_steps": 2})
    turn = tasks.next_action(*RUN, 0, key="a")
    last = [Report(step=step, metrics={"accuracy": step / 10}) for step in (1, 2)]
    result = SegmentResult(outcome=Outcome.COMPLETED, step=2)
    receipt = agent(web, turn).finish(result, last)
    assert receipt.score is not None
    assert (receipt.score.state, receipt.score.value) == (TrialState.COMPLETED, 0.2)
    # Said again, by the task, which has not heard the answer: nothing changes.
    again = tasks.finish_segment(segment_of(turn), SegmentResult(outcome=Outcome.PREEMPTED), last)
    assert again == receipt
    assert tasks.next_action(*RUN, 0, key="b").score == receipt.score
    assert tasks.reports(study).values == [0.1, 0.2]


GUESS = SegmentResult(
    outcome=Outcome.PREEMPTED, cause=Cause.AGENT_LOST, reason="its agent reported nothing"
)


def test_a_fallback_changes_nothing_if_the_agent_has_reported_the_end(web: TestClient) -> None:
    tasks, _ = rolling(web, scheduler={"name": "default", "max_steps": 1})
    turn = tasks.next_action(*RUN, 0, key="a")
    result = SegmentResult(outcome=Outcome.COMPLETED, step=1, cause=Cause.FINISHED)
    said = agent(web, turn).finish(result, [Report(step=1, metrics={"accuracy": 0.1})])
    provenance = Provenance(image_digest="sha256:1")
    receipt = tasks.finish_segment(
        segment_of(turn), GUESS, provenance=provenance, is_fallback=True
    )
    assert receipt == said
    assert receipt.score is not None
    assert receipt.score.state is TrialState.COMPLETED


def test_a_fallback_counts_if_the_agent_has_reported_no_end(web: TestClient) -> None:
    tasks, study = rolling(web)
    turn = tasks.next_action(*RUN, 0, key="a")
    receipt = tasks.finish_segment(segment_of(turn), GUESS, is_fallback=True)
    assert (receipt.result, receipt.score) == (GUESS, None)
    segments = tasks.trial(study, 0).segments
    assert [(it.outcome, it.cause) for it in segments] == [("preempted", "agent_lost")]
    with pytest.raises(GatewayRefusedError, match="has ended"):
        agent(web, turn).finish(SegmentResult(outcome=Outcome.COMPLETED, step=9))
    assert tasks.next_action(*RUN, 0, key="b").kind is NextActionKind.RUN


def test_a_report_that_comes_with_the_end_is_decided_on(
    web: TestClient, services: Gateway
) -> None:
    scheduler = {"name": "asha_promoting", "min_steps": 1, "max_steps": 9, "eta": 3}
    tasks, study = rolling(web, scheduler=scheduler)
    turn = tasks.next_action(*RUN, 0, key="a")
    report = Report(step=1, metrics={"accuracy": 0.5})
    receipt = agent(web, turn).finish(SegmentResult(outcome=Outcome.PAUSED, step=1), [report])
    assert receipt.score is None
    with services.ledger.study(study) as session:
        paused = session.view.trials[0]
    assert (paused.state, paused.decided_step) == (TrialState.PAUSED, 1)


def test_a_turn_tells_what_the_task_needs_to_know_of_its_study(web: TestClient) -> None:
    tasks = gateway(web, issue_service_token(SECRET))
    request = StudyRequest(
        config=study_data(flow="rolling", env={"A": "b"}),
        dag_id=RUN[0],
        run_id=RUN[1],
        archive="code/1.tar.gz",
        packages=["numpy"],
    )
    study = tasks.start_study(request)
    assert (study.archive, study.packages) == ("code/1.tar.gz", ["numpy"])
    assert read_entered(study.config, source="test").env == {"A": "b"}
    # A `prepare` that comes again, with code that has changed, changes nothing of it.
    tasks.start_study(replace(request, archive="code/2.tar.gz"))
    assert tasks.next_action(*RUN, 0, key="a").study == study


def test_a_bad_last_report_is_refused_and_the_segment_stays_open(web: TestClient) -> None:
    tasks, _ = rolling(web)
    turn = tasks.next_action(*RUN, 0, key="a")
    me = agent(web, turn)
    with pytest.raises(ValueError, match="accuracy"):
        me.finish(
            SegmentResult(outcome=Outcome.COMPLETED, step=1), [Report(step=1, metrics={"x": 1.0})]
        )
    assert me.report([]).action is Action.CONTINUE


def test_the_next_in_line_is_answered_when_a_place_is_free(web: TestClient) -> None:
    tasks, _ = rolling(web)
    first = tasks.next_action(*RUN, 0, key="a")
    with web, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(tasks.next_action, *RUN, 1, key="b", wait=20)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.5)
        agent(web, first).finish(SegmentResult(outcome=Outcome.FAILED, step=0))
        turn = waiting.result(timeout=15)
    assert turn.kind is NextActionKind.RUN


def test_who_waits_in_vain_is_told_why(web: TestClient) -> None:
    tasks, _ = rolling(web)
    tasks.next_action(*RUN, 0, key="a")
    turn = tasks.next_action(*RUN, 1, key="b", wait=0.1)
    assert (turn.kind, turn.is_next) == (NextActionKind.WAIT, True)
