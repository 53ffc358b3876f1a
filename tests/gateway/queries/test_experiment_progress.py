"""Experiments as people see them over HTTP."""

from __future__ import annotations

from fastapi.testclient import TestClient

from hpo_ops.client import Experiment, StudyRequest
from hpo_ops.client.experiment_messages import repeat_run
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.gateway.tokens import issue_service_token
from hpo_ops.protocol import Outcome, Report, SegmentResult
from tests.studies import study_data


def run_study(services: Gateway, repeat: int, values: list[float], *, repeats: int = 3) -> int:
    """A study whose trials end with some values, in this order."""
    data = study_data(
        scheduler="default", trials=3, flow="rolling", repeats=repeats, seed=repeat, parallelism=3
    )
    experiment = "manual" if repeats > 1 else None
    run_id = repeat_run("manual", repeat)
    handle = services.studies.start(
        StudyRequest(
            config=data, dag_id="small", run_id=run_id, experiment=experiment, repeat=repeat
        )
    )
    for number, value in enumerate(values):
        turn = services.next_actions.next_action(handle.id, number, "try")
        assert turn.assignment is not None
        segment = turn.assignment.segment
        services.segments.report(
            segment, [Report(step=1, metrics={"accuracy": value}, seconds=1.0)]
        )
        services.segments.finish(segment, SegmentResult(outcome=Outcome.COMPLETED, step=1))
    return handle.id


def experiment_of(services: Gateway, study_id: int) -> Experiment:
    web = TestClient(create_app(services))
    token = issue_service_token(services.keys)
    answer = web.get(
        f"/api/v1/studies/{study_id}/experiment", headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 200, answer.text
    return Experiment.from_dict(answer.json())


def test_an_experiment_has_its_repeats_each_with_how_it_got_to_its_best(services: Gateway) -> None:
    first = run_study(services, 0, [0.5, 0.4, 0.7])
    second = run_study(services, 1, [0.6])
    services.studies.end(first, {})
    for study_id in (first, second):  # whichever of them is asked for
        found = experiment_of(services, study_id)
        assert (found.study, found.run_id, found.wanted) == ("small", "manual", 3)
        assert [repeat.number for repeat in found.repeats] == [0, 1]
        assert [repeat.curve for repeat in found.repeats] == [[0.5, 0.5, 0.7], [0.6]]
        assert [repeat.best for repeat in found.repeats] == [0.7, 0.6]
        assert found.outcomes == {0: 0.7}  # the second has not ended
        assert found.run_of(2) == "manual__repeat_2"


def test_a_study_without_repeats_is_an_experiment_of_one(services: Gateway) -> None:
    study_id = run_study(services, 0, [0.5], repeats=1)
    found = experiment_of(services, study_id)
    assert (found.wanted, [repeat.number for repeat in found.repeats]) == (1, [0])
