"""Recording a study through the gateway, as `hpo trace export` does."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from hpo_ops.cli.connection import Address, Session
from hpo_ops.cli.trace_sources import record
from hpo_ops.client import StudyRequest
from hpo_ops.core import TrialState
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.protocol import Action, Outcome, Report, SegmentResult
from hpo_ops.simulator import load_traces, save_traces
from tests.gateway.web import gateway, mounted, person, task
from tests.studies import study_data


def start(services: Gateway, **changes: Any) -> int:
    request = StudyRequest(
        config=study_data(**changes), dag_id="small", run_id=f"manual__{uuid.uuid4().hex}"
    )
    return services.studies.start(request).id


def train(services: Gateway, study_id: int, number: int, *steps: int) -> None:
    """One segment of a trial: reports after some steps, until it is told to leave."""
    turn = services.next_actions.next_action(study_id, number, "a")
    assert turn.assignment is not None
    segment = turn.assignment.segment
    for step in steps:
        value = 0.5 + number / 10 + step / 100
        control = services.segments.report(
            segment, [Report(step=step, metrics={"accuracy": value}, seconds=step / 8)]
        )
        if control.action is Action.STOP:
            result = SegmentResult(outcome=Outcome.STOPPED, step=step, reason=control.reason)
            break
    else:
        result = SegmentResult(outcome=Outcome.COMPLETED, step=steps[-1])
    services.segments.finish(segment, result)


def session_of(services: Gateway, headers: dict[str, str]) -> Session:
    session = Session(Address("http://gateway"))
    token = headers["Authorization"].removeprefix("Bearer ")
    # A cached property: what is put there is what the session has.
    session.__dict__["gateway"] = gateway(mounted(services), token)
    return session


def test_a_study_is_recorded_as_it_went(services: Gateway, tmp_path: Path) -> None:
    study_id = start(services, metric={"name": "accuracy", "direction": "maximize", "target": 2.0})
    services.rounds.sample(study_id, 0)
    train(services, study_id, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9)
    train(services, study_id, 1, 1, 3, 9)
    train(services, study_id, 0, 1, 2, 3)

    traces = record("small", None, session_of(services, task()))
    assert [trial.record.trial for trial in traces.trials if trial.record] == [0, 1, 2]
    best, sparse = traces.trials[2], traces.trials[1]
    assert best.values == tuple(0.5 + 0.2 + step / 100 for step in range(1, 10))
    assert best.seconds == tuple(step / 8 for step in range(1, 10))
    assert best.steps == ()
    assert sparse.steps[0] == 1
    assert set(best.params) == {"lr", "width"}
    assert best.record is not None
    assert best.record.state is TrialState.COMPLETED
    assert [item.outcome for item in best.record.segments] == ["completed"]
    segment = best.record.segments[0]
    assert 0 <= segment.start <= best.record.times[0] <= best.record.times[-1] <= segment.end
    pruned = traces.trials[0].record
    assert pruned is not None
    assert pruned.is_cut_short
    assert traces.terms is not None
    assert traces.terms.scheduler == {"name": "asha", "min_steps": 1, "max_steps": 9, "eta": 3}
    assert (traces.terms.slots, traces.terms.rounds, traces.terms.target) == (3, True, 2.0)

    save_traces(traces, tmp_path / "small.jsonl")
    assert load_traces(tmp_path / "small.jsonl") == traces
    text_of = (tmp_path / "small.jsonl").read_text()
    save_traces(load_traces(tmp_path / "small.jsonl"), tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == text_of


def test_a_running_study_is_recorded_up_to_now(services: Gateway) -> None:
    study_id = start(services)
    services.rounds.sample(study_id, 0)
    turn = services.next_actions.next_action(study_id, 0, "a")
    assert turn.assignment is not None
    services.segments.report(turn.assignment.segment, [Report(step=1, metrics={"accuracy": 0.5})])
    traces = record("small", None, session_of(services, task()))
    assert len(traces.trials) == 1
    assert traces.terms is not None
    assert traces.terms.silent == (1, 2)
    made = traces.trials[0].record
    assert made is not None
    assert made.segments[0].outcome == ""
    assert made.segments[0].end >= made.times[0]


def test_a_hundred_thousand_reports_come_page_by_page(services: Gateway) -> None:
    study_id = start(services)
    services.rounds.sample(study_id, 0)
    with services.ledger.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO ledger.reports "
                "(study_id, trial, step, segment_id, value, metrics, seconds) "
                "SELECT :study, n % 3, n / 3 + 1, 'x', sqrt(n), '{}'::jsonb, n * 0.1 "
                "FROM generate_series(0, 99999) AS n ORDER BY n"
            ),
            {"study": study_id},
        )
    session = session_of(services, task())
    first = session.gateway.reports(study_id)
    assert len(first.ids) == 10_000
    traces = record("small", None, session)
    assert [len(trial.values) for trial in traces.trials] == [33_334, 33_333, 33_333]
    assert traces.trials[1].values[1] == 2.0
    assert traces.trials[0].steps == ()


def test_who_may_not_see_a_study_may_not_record_it(services: Gateway) -> None:
    study_id = start(services)
    for name in ("reports", "segments", "config"):
        client = gateway(mounted(services), "person eve")
        with pytest.raises(LookupError):
            client.request("GET", f"/studies/{study_id}/{name}")
        assert (
            gateway(mounted(services), person("bob")["Authorization"][7:]).request(
                "GET", f"/studies/{study_id}/{name}"
            )
            is not None
        )
