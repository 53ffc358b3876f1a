"""Population-based training in a live study: poor trials make room for changed copies."""

from __future__ import annotations

import optuna
import pytest

from hpo_ops.client import StudyRequest
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.recorded_study import list_events
from hpo_ops.ledger import Ledger
from hpo_ops.protocol import Action, Assignment, Checkpoint, Outcome, Report, SegmentResult
from tests.studies import study_data

PBT = {"name": "pbt", "population": 4, "interval": 3, "max_steps": 9, "share": 0.25}


def start(services: Gateway) -> int:
    data = study_data(scheduler=PBT, trials=6, parallelism=4)
    assert "flow" not in data  # a study that copies trials is rolling by itself
    return services.studies.start(StudyRequest(config=data, dag_id="small", run_id="run-1")).id


def begin(services: Gateway, study_id: int, number: int) -> Assignment:
    turn = services.next_actions.next_action(study_id, number, key=f"{number}")
    assert turn.assignment is not None
    return turn.assignment


def train(services: Gateway, segment: Assignment, value: float, until: int) -> Action:
    action = Action.CONTINUE
    for step in range(segment.from_step + 1, until + 1):
        saved = Checkpoint(step=step, uri="", files=1, bytes=1, digest=f"{step}" * 64)
        services.segments.checkpoint(segment.segment, saved)
        report = Report(step=step, metrics={"accuracy": value}, seconds=0.1)
        action = services.segments.report(segment.segment, [report]).action
    return action


def test_a_changed_copy_of_the_best_takes_the_place_of_the_worst(
    services: Gateway, database: str
) -> None:
    study_id = start(services)
    segments = [begin(services, study_id, number) for number in range(4)]
    for number in (3, 2, 1):
        assert train(services, segments[number], number / 10, until=3) is Action.CONTINUE
    assert train(services, segments[0], 0.0, until=3) is Action.STOP
    services.segments.finish(
        segments[0].segment, SegmentResult(outcome=Outcome.STOPPED, step=3, reason="poor")
    )

    copy = begin(services, study_id, 4)
    assert (copy.from_step, copy.until_step) == (3, 9)
    assert copy.restore_from == "small/run-1/trials/3"
    assert copy.saved is not None
    known = [(saved.step, saved.path, saved.digest) for saved in copy.saved]
    assert known[0] == (3, "small/run-1/trials/3/3", "3" * 64)
    lr, width = segments[3].params["lr"], segments[3].params["width"]
    assert isinstance(lr, float)
    assert isinstance(width, int)
    allowed = [min(max(lr * factor, 1e-4), 1e-1) for factor in (0.8, 1.2)]
    assert copy.params["lr"] in [pytest.approx(value) for value in allowed]
    assert copy.params["width"] in [min(max(round(width * f), 4), 64) for f in (0.8, 1.2)]
    record = services.ledger.get(study_id)
    moved = [
        event.data["reason"]
        for event in list_events(services.ledger, record, after=0, limit=1000)
        if event.kind == "trial moved" and event.trial == 4
    ]
    assert moved == ["trial 4 is a perturbed copy of trial 3"]
    seen = optuna.load_study(study_name=record.key, storage=database).trials
    assert seen[4].params == copy.params  # and Optuna knows

    # Its first step is no boundary; then it is judged like the others.
    assert train(services, copy, 0.9, until=4) is Action.CONTINUE
    other = Ledger.open(database)  # a gateway that has just been started
    with other.study(study_id) as session:
        assert session.view.trials[4].checkpoint_step == 4
    other.engine.dispose()
    lost = SegmentResult(outcome=Outcome.PREEMPTED, step=4)
    services.segments.finish(copy.segment, lost)
    again = services.next_actions.next_action(study_id, 4, key="again").assignment
    assert again is not None
    assert (again.from_step, again.restore_from) == (4, None)  # from its own by now
    assert [saved.path for saved in again.saved or ()] == ["small/run-1/trials/4/4"]
