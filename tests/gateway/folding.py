"""How tests run a study with folds: as its tasks and agents do, on a real ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optuna

from hpo_ops.client import NextAction, NextActionKind, StudyRequest, TrialResult
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.protocol import Action, Checkpoint, Outcome, Report, SegmentResult
from tests.studies import study_data

PAPER = [(0.60, 0.70, 0.74, 0.73), (0.58, 0.71, 0.72, 0.75), (0.61, 0.69, 0.73, 0.70)]
Curves = Callable[[int, int], tuple[float, ...]]
"""What fold f of trial c reports."""


def start(services: Gateway, run_id: str = "run-1", **changes: Any) -> int:
    given = {"scheduler": "default", "folds": 3, "flow": "rolling", "cache": False, **changes}
    request = StudyRequest(config=study_data(**given), dag_id="small", run_id=run_id)
    return services.studies.start(request).id


def train(services: Gateway, turn: NextAction, curve: tuple[float, ...]) -> Outcome:
    """Trains a segment as an agent would, one report a step."""
    assignment = turn.assignment
    assert assignment is not None
    action, step = Action.CONTINUE, assignment.from_step
    for value in curve[step : assignment.until_step]:
        step += 1
        report = Report(step=step, metrics={"accuracy": value})
        action = services.segments.report(assignment.segment, [report]).action
        uri = f"s3://x/{assignment.trial}/{step}"
        services.segments.checkpoint(
            assignment.segment, Checkpoint(step=step, uri=uri, files=1, bytes=1)
        )
        if action is Action.STOP:
            break
    outcome = Outcome.STOPPED if action is Action.STOP else Outcome.COMPLETED
    services.segments.finish(assignment.segment, SegmentResult(outcome=outcome, step=step))
    return outcome


def finish(services: Gateway, turn: NextAction, outcome: Outcome, reason: str = "") -> None:
    assert turn.assignment is not None
    services.segments.finish(
        turn.assignment.segment, SegmentResult(outcome=outcome, step=1, reason=reason)
    )


def run_rolling(services: Gateway, study_id: int, curves: Curves) -> list[TrialResult]:
    """Runs the tasks of a rolling study one after the other."""
    config = services.ledger.get(study_id).config
    scores = []
    for number in range(config.mapped_trials):
        turn = services.next_actions.next_action(study_id, number, key=f"task {number}")
        if turn.kind is NextActionKind.RUN:
            train(services, turn, curves(*divmod(number, config.fold_count)))
            turn = services.next_actions.next_action(study_id, number, key=f"task {number} again")
        assert turn.score is not None, turn
        scores.append(turn.score)
    return scores


def seen_by_optuna(services: Gateway, study_id: int, database: str) -> list[Any]:
    key = services.ledger.get(study_id).key
    return optuna.load_study(study_name=key, storage=database).trials
