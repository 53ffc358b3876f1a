"""Scores that come by XCom, on a real ledger."""

from __future__ import annotations

import optuna
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from hpo_ops.client import NextAction, NextActionKind, StudyRequest, TrialResult, UnconfirmedEnd
from hpo_ops.config import parse_study
from hpo_ops.core import TrialState
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.tokens import issue_service_token
from hpo_ops.protocol import Outcome, ProtocolError, Report, SegmentResult
from hpo_ops.runners._unconfirmed_score import unconfirmed_score
from hpo_ops.runners.segment_with_agent import FinishedSegment
from tests.gateway.services.test_study_service import start
from tests.gateway.web import SECRET, agent, gateway
from tests.studies import study_data

PLAIN = {"scheduler": {"name": "default", "max_steps": 3}, "trials": 1, "parallelism": 1}


def by_xcom(turn: NextAction, *, reported: int = 0) -> TrialResult:
    """The score of a trial whose gateway went away after so many reports."""
    assert turn.assignment is not None
    reports = [Report(step=step, metrics={"accuracy": step / 10}) for step in (1, 2, 3)]
    end = FinishedSegment(
        SegmentResult(outcome=Outcome.COMPLETED, step=3), None, reports[reported:], reports
    )
    config = parse_study(study_data(**PLAIN), source="test")
    score = unconfirmed_score(config, turn.assignment, end)
    assert score is not None
    return TrialResult.from_json(score.to_json())


def first_report(services: Gateway, turn: NextAction) -> None:
    assert turn.assignment is not None
    services.segments.report(turn.assignment.segment, [Report(step=1, metrics={"accuracy": 0.1})])


def events(services: Gateway, kind: str) -> list[str]:
    with services.ledger.engine.begin() as connection:
        found = connection.execute(
            text("SELECT data FROM ledger.events WHERE kind = :kind"), {"kind": kind}
        )
        return [row.data["reason"] for row in found]


def test_a_round_has_the_score_of_a_trial_whose_end_the_gateway_missed(
    services: Gateway, database: str
) -> None:
    study_id = start(services, **PLAIN)
    services.rounds.sample(study_id, 0)
    turn = services.next_actions.next_action(study_id, 0, "a")
    first_report(services, turn)
    collected = services.rounds.collect(study_id, 0, [by_xcom(turn, reported=1)])
    (result,) = collected.results
    assert (result.state, result.value, result.step) == (TrialState.COMPLETED, 0.3, 3)
    assert collected.scores.absorbed == [0]
    assert collected.scores.disagreements == []
    with services.ledger.study(study_id) as session:
        assert session.reports.curve(0) == [(1, 0.1), (2, 0.2), (3, 0.3)]
        assert session.segments.find_open(0) is None
    told = optuna.load_study(study_name=None, storage=database).trials
    assert [trial.value for trial in told] == [0.3]


def test_a_score_without_its_segments_end_suffices(services: Gateway) -> None:
    """As after a ledger that was restored from a backup."""
    study_id = start(services, **PLAIN)
    services.rounds.sample(study_id, 0)
    services.next_actions.next_action(study_id, 0, "a")
    score = TrialResult(
        trial=0, state=TrialState.COMPLETED, reason="done", step=3, value=0.3, best_step=2
    )
    (result,) = services.rounds.collect(study_id, 0, [score]).results
    assert (result.state, result.value, result.best_step) == (TrialState.COMPLETED, 0.3, 2)


def test_a_score_counts_although_the_segment_was_given_up_for_lost(services: Gateway) -> None:
    study_id = start(services, **PLAIN)
    services.rounds.sample(study_id, 0)
    turn = services.next_actions.next_action(study_id, 0, "a")
    assert turn.assignment is not None
    services.segments.finish(turn.assignment.segment, SegmentResult(outcome=Outcome.PREEMPTED))
    (result,) = services.rounds.collect(study_id, 0, [by_xcom(turn)]).results
    assert (result.state, result.value) == (TrialState.COMPLETED, 0.3)


def test_a_rolling_trial_is_absorbed_instead_of_failed(services: Gateway) -> None:
    study_id = start(services, **PLAIN, flow="rolling")
    turn = services.next_actions.next_action(study_id, 0, "a")
    assert turn.kind is NextActionKind.RUN
    assert services.next_actions.lost(study_id, [0, 7]) == [0]
    score = by_xcom(turn)
    assert services.studies.absorb(study_id, [score]).absorbed == [0]
    assert services.next_actions.lost(study_id, [0]) == []
    assert services.next_actions.abandon(study_id, [0]) == []
    assert events(services, "score absorbed") == ["trained 3 steps"]
    again = services.studies.absorb(study_id, [score])  # as `publish` does in the end
    assert (again.absorbed, again.disagreements) == ([], [])


def test_the_ledger_counts_where_the_two_differ_and_an_event_says_so(services: Gateway) -> None:
    study_id = start(services, **PLAIN)
    services.rounds.sample(study_id, 0)
    turn = services.next_actions.next_action(study_id, 0, "a")
    assert turn.assignment is not None
    first_report(services, turn)
    services.segments.finish(
        turn.assignment.segment, SegmentResult(outcome=Outcome.FAILED, reason="bad")
    )
    said = TrialResult(trial=0, state=TrialState.COMPLETED, reason="", step=3, value=0.3)
    collected = services.rounds.collect(study_id, 0, [said])
    assert collected.results[0].state is TrialState.FAILED
    (sentence,) = collected.scores.disagreements
    assert sentence.startswith("trial 0 is failed with the value 0.1 in the ledger, but completed")
    assert events(services, "scores differ") == [sentence]


def test_reports_that_the_study_cannot_use_are_not_absorbed(services: Gateway) -> None:
    study_id = start(services, **PLAIN)
    services.rounds.sample(study_id, 0)
    turn = services.next_actions.next_action(study_id, 0, "a")
    assert turn.assignment is not None
    end = UnconfirmedEnd(
        segment=turn.assignment.segment,
        result=SegmentResult(outcome=Outcome.COMPLETED, step=1),
        reports=[Report(step=1, metrics={"other": 1.0})],
    )
    bad = TrialResult(trial=0, state=TrialState.COMPLETED, reason="", step=1, unconfirmed=end)
    collected = services.rounds.collect(study_id, 0, [bad])
    assert collected.results[0].state is TrialState.FAILED
    assert "accuracy is missing" in collected.scores.disagreements[0]


def test_a_trial_that_the_study_does_not_have_is_refused(services: Gateway) -> None:
    study_id = start(services, **PLAIN, flow="rolling")
    unknown = TrialResult(trial=9, state=TrialState.COMPLETED, reason="")
    with pytest.raises(ValueError, match="has no trial 9"):
        services.studies.absorb(study_id, [unknown])
    never_began = TrialResult(trial=9, state=TrialState.PRUNED, reason="the study stops")
    assert services.studies.absorb(study_id, [never_began]).disagreements == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_finite_number_is_refused(value: float) -> None:
    data = {"trial": 0, "state": "completed", "reason": "", "value": value}
    with pytest.raises(ProtocolError, match="must be a finite number"):
        TrialResult.from_dict(data)


def test_a_score_that_the_gateway_missed_arrives_over_http(web: TestClient) -> None:
    tasks = gateway(web, issue_service_token(SECRET))
    study = tasks.start_study(
        StudyRequest(config=study_data(**PLAIN, flow="rolling"), dag_id="small", run_id="r")
    )
    turn = tasks.next_action("small", "r", 0, key="a")
    agent(web, turn).report([Report(step=1, metrics={"accuracy": 0.1})])
    # Its end never arrives; the task has ended all the same, and its score is in XCom.
    assert tasks.lost(study.id, [0]) == [0]
    compared = tasks.absorb(study.id, [by_xcom(turn, reported=1)])
    assert (compared.absorbed, compared.disagreements) == ([0], [])
    best = tasks.best(study.id)
    assert best is not None
    assert (best.trial, best.value, best.step) == (0, 0.3, 3)
