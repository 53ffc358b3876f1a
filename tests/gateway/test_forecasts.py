"""Live studies under schedulers that read forecasts: POP and EarlyTerm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from hpo_ops.client import NextActionKind, StudyRequest
from hpo_ops.core import Direction, TrialState
from hpo_ops.curves import ProjectedEnsemble
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.recorded_study import list_events
from hpo_ops.gateway.queries.trial_lists import list_decisions
from hpo_ops.ledger import Ledger
from hpo_ops.protocol import (
    Action,
    Assignment,
    Control,
    CurveForecast,
    Outcome,
    Report,
    SegmentResult,
)
from hpo_ops.schedulers import create_scheduler
from hpo_ops.simulator import Cluster, Traces, TrialTrace, simulate
from tests.live import FakeAgents, forecast_with
from tests.studies import study_data

TARGET = 0.77
POP = {"name": "pop", "max_steps": 120, "boundary": 10, "kill_threshold": 0.15}


def start(services: Gateway, **changes: Any) -> int:
    data = study_data(
        **{
            "scheduler": POP,
            "metric": {"name": "accuracy", "direction": "maximize", "target": TARGET},
            "trials": 20,
            "parallelism": 6,
            **changes,
        }
    )
    return services.studies.start(
        StudyRequest(config=data, dag_id=data["name"], run_id="run-1")
    ).id


def begin(services: Gateway, study_id: int, numbers: Sequence[int]) -> list[Assignment]:
    made = []
    for number in numbers:
        turn = services.next_actions.next_action(study_id, number, key=str(number))
        assert turn.assignment is not None
        made.append(turn.assignment)
    return made


def judge(
    services: Gateway, segment: Assignment, *, step: int, value: float, chance: float | None
) -> Control:
    """A boundary as an agent has it: the forecast, then the report of its step."""
    if chance is None:
        made = CurveForecast(step=step, note="the fit failed")
    else:
        made = forecast_with(chance, of=TARGET, after=step, by=120)
    services.segments.forecast(segment.segment, made)
    return services.segments.report(
        segment.segment, [Report(step=step, metrics={"accuracy": value})]
    )


def test_the_assignment_says_when_to_forecast_and_how(services: Gateway) -> None:
    study_id = start(services, curves={"name": "mcmc", "walkers": 96})
    first, second = begin(services, study_id, [0, 1])
    assert first.forecasts is not None
    assert second.forecasts is not None
    assert (first.forecasts.every, first.forecasts.last_step) == (10, 120)
    assert (first.forecasts.predictor, first.forecasts.options) == ("mcmc", {"walkers": 96})
    assert first.forecasts.seed != second.forecasts.seed
    assert Assignment.from_json(first.to_json()) == first
    whole = {"name": "default", "max_steps": 9}
    plain = start(services, name="plain", scheduler=whole, flow="rolling")
    assert begin(services, plain, [0])[0].forecasts is None


def test_pop_divides_places_by_the_papers_numbers(services: Gateway) -> None:
    study_id = start(services, parallelism=6)
    chances = [0.9, 0.8, 0.8, 0.5, 0.3, 0.1]
    segments = begin(services, study_id, range(6))
    for segment, chance in zip(segments, chances, strict=True):
        judge(services, segment, step=10, value=0.5, chance=chance)
    services.studies.change(study_id, {"parallelism": 4})
    answers = [
        judge(services, segment, step=20, value=0.5, chance=chance)
        for segment, chance in zip(segments, chances, strict=True)
    ]
    assert [answer.action for answer in answers] == [Action.CONTINUE] * 3 + [Action.PAUSE] * 3
    assert (
        answers[0].reason == "promising: probability 0.900 to reach the target is at least 0.800"
    )
    assert answers[3].reason == (
        "opportunistic, and other trials take their turn: "
        "probability 0.500 to reach the target is below 0.800"
    )
    for segment, answer in list(zip(segments, answers, strict=True))[3:]:
        services.segments.finish(
            segment.segment, SegmentResult(outcome=Outcome.PAUSED, reason=answer.reason)
        )
    # The fourth place goes to a new trial, and the paused ones wait.
    assert services.next_actions.next_action(study_id, 3, key="again").kind is NextActionKind.WAIT
    assert services.next_actions.next_action(study_id, 6, key="new").kind is NextActionKind.RUN


def test_pop_promotes_what_becomes_promising_first(services: Gateway) -> None:
    study_id = start(services, trials=4, parallelism=3)
    segments = begin(services, study_id, range(3))
    assert judge(services, segments[0], step=10, value=0.5, chance=0.2).action is Action.PAUSE
    services.segments.finish(segments[0].segment, SegmentResult(outcome=Outcome.PAUSED, step=10))
    third = begin(services, study_id, [3])[0]
    assert judge(services, segments[1], step=10, value=0.5, chance=0.1).action is Action.PAUSE
    services.segments.finish(segments[1].segment, SegmentResult(outcome=Outcome.PAUSED, step=10))
    # Nothing is promising any more: the two take turns, the one that waits longest first.
    turn = services.next_actions.next_action(study_id, 0, key="back")
    assert turn.kind is NextActionKind.RUN
    assert turn.reason == "trial 0 resumes from step 10"
    assert judge(services, third, step=10, value=0.7, chance=0.9).action is Action.CONTINUE
    decided = list_decisions(services.ledger, services.ledger.get(study_id), 3)
    reason = "promising: probability 0.900 to reach the target is at least 0.900"
    assert decided[-1].reason == reason


@pytest.mark.parametrize(
    ("chance", "action"), [(0.05, Action.PAUSE), (0.0499, Action.STOP), (None, Action.CONTINUE)]
)
def test_pop_stops_below_its_least_chance_only(
    services: Gateway, chance: float | None, action: Action
) -> None:
    study_id = start(services)
    segment = begin(services, study_id, [0])[0]
    answer = judge(services, segment, step=10, value=0.5, chance=chance)
    assert answer.action is action
    if action is Action.STOP:
        assert answer.reason == "probability 0.050 to reach the target is below 0.05"
    if chance is None:
        assert answer.reason == "no forecast of its learning curve, so it continues"


def test_a_trial_that_does_not_learn_is_killed_without_a_forecast(services: Gateway) -> None:
    study_id = start(services)
    segment = begin(services, study_id, [0])[0]
    reports = [Report(step=step, metrics={"accuracy": 0.15}) for step in range(1, 11)]
    early = services.segments.report(segment.segment, reports[:9])
    assert early.action is Action.CONTINUE  # nothing is decided off a boundary
    answer = services.segments.report(segment.segment, reports[9:])
    assert answer.action is Action.STOP
    assert answer.reason == "not learning: at or below the kill threshold 0.15"


def test_a_forecast_is_kept_and_shown_and_survives_a_restart(
    services: Gateway, database: str
) -> None:
    study_id = start(services)
    segment = begin(services, study_id, [0])[0]
    judge(services, segment, step=10, value=0.5, chance=0.6)
    again = forecast_with(0.1, of=TARGET, after=10, by=120)
    services.segments.forecast(segment.segment, again)  # repeated: the first word counts
    record = services.ledger.get(study_id)
    events = list_events(services.ledger, record, after=0, limit=1000)
    shown = [event.data for event in events if event.kind == "forecast"]
    assert len(shown) == 1
    assert (shown[0]["step"], shown[0]["by_step"]) == (10, 120)
    assert shown[0]["low"] < shown[0]["value"] < shown[0]["high"]
    another = Ledger.open(database)  # a gateway that has just been started
    with another.study(study_id) as session:
        forecast = session.view.trials[0].forecast
        assert forecast is not None
        assert forecast.probability(TARGET, by_step=120) == pytest.approx(0.6)
    another.engine.dispose()


def test_a_failed_fit_takes_the_forecast_back(services: Gateway) -> None:
    study_id = start(services)
    segment = begin(services, study_id, [0])[0]
    judge(services, segment, step=10, value=0.5, chance=0.6)
    assert judge(services, segment, step=20, value=0.5, chance=None).action is Action.CONTINUE
    with services.ledger.study(study_id) as session:
        assert session.view.trials[0].forecast is None


def curves() -> list[list[float]]:
    """Ten curves that level off between 0.1 and 0.83, the best ones not first."""
    made = []
    for number in range(10):
        top = 0.1 + 0.73 * ((number * 7) % 10) / 9
        made.append(
            [
                top - (top - 0.1) * math.exp(-step / 5) + 0.004 * math.sin(7 * number + step)
                for step in range(1, 25)
            ]
        )
    return made


@pytest.mark.parametrize(
    ("scheduler", "direction"),
    [
        ({**POP, "max_steps": 24, "boundary": 6}, Direction.MAXIMIZE),
        ({**POP, "max_steps": 24, "boundary": 6}, Direction.MINIMIZE),
        ({"name": "early_term", "max_steps": 24, "boundary": 8}, Direction.MAXIMIZE),
    ],
)
def test_a_live_study_decides_as_the_simulator_does(
    services: Gateway, scheduler: dict[str, Any], direction: Direction
) -> None:
    sign = 1 if direction is Direction.MAXIMIZE else -1
    values = [[sign * value for value in curve] for curve in curves()]
    if "kill_threshold" in scheduler:
        scheduler = {**scheduler, "kill_threshold": sign * scheduler["kill_threshold"]}
    study_id = start(
        services,
        scheduler=scheduler,
        curves={"name": "projected", "seed": 5},
        metric={"name": "accuracy", "direction": direction.value, "target": sign * 0.84},
        flow="rolling",
        trials=10,
        parallelism=3,
    )
    agents = FakeAgents(services, study_id, values)
    agents.run()

    options = {key: value for key, value in scheduler.items() if key != "name"}
    replay = simulate(
        Traces(
            name="same",
            metric="accuracy",
            direction=direction,
            trials=tuple(TrialTrace(tuple(curve), (1.0,) * len(curve), {}) for curve in values),
        ),
        create_scheduler(scheduler["name"], options),
        cluster=Cluster(units=3),
        predictor=ProjectedEnsemble(seed=5),
        target=sign * 0.84,
    )
    expected = [
        (action, number, step, reason)
        for _, action, number, step, reason in replay.log
        if action in (Action.PAUSE, Action.STOP)
    ]
    assert expected
    assert agents.said == expected
    with services.ledger.study(study_id) as session:
        states = [trial.state for trial in session.view.trials]
    assert states == [trial.state for trial in replay.study.trials]
    assert TrialState.COMPLETED in states
