"""How tests run a study with folds: as its tasks and agents do, on a real ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optuna

from hpo_ops.client import NextAction, NextActionKind, StudyRequest, TrialResult
from hpo_ops.gateway.services.studies import Studies
from hpo_ops.protocol import Action, Checkpoint, Outcome, Report, SegmentResult
from tests.studies import study_data

PAPER = [(0.60, 0.70, 0.74, 0.73), (0.58, 0.71, 0.72, 0.75), (0.61, 0.69, 0.73, 0.70)]
Curves = Callable[[int, int], tuple[float, ...]]
"""What fold f of trial c reports."""


def start(studies: Studies, run_id: str = "run-1", **changes: Any) -> int:
    given = {"scheduler": "default", "folds": 3, "flow": "rolling", "cache": False, **changes}
    request = StudyRequest(config=study_data(**given), dag_id="small", run_id=run_id)
    return studies.start(request).id


def train(studies: Studies, turn: NextAction, curve: tuple[float, ...]) -> Outcome:
    """Trains a segment as an agent would, one report a step."""
    assignment = turn.assignment
    assert assignment is not None
    action, step = Action.CONTINUE, assignment.from_step
    for value in curve[step : assignment.until_step]:
        step += 1
        report = Report(step=step, metrics={"accuracy": value})
        action = studies.report(assignment.segment, [report]).action
        uri = f"s3://x/{assignment.trial}/{step}"
        studies.checkpoint(assignment.segment, Checkpoint(step=step, uri=uri, files=1, bytes=1))
        if action is Action.STOP:
            break
    outcome = Outcome.STOPPED if action is Action.STOP else Outcome.COMPLETED
    studies.finish(assignment.segment, SegmentResult(outcome=outcome, step=step))
    return outcome


def finish(studies: Studies, turn: NextAction, outcome: Outcome, reason: str = "") -> None:
    assert turn.assignment is not None
    studies.finish(turn.assignment.segment, SegmentResult(outcome=outcome, step=1, reason=reason))


def run_rolling(studies: Studies, study_id: int, curves: Curves) -> list[TrialResult]:
    """Runs the tasks of a rolling study one after the other."""
    config = studies.ledger.get(study_id).config
    scores = []
    for number in range(config.mapped_trials):
        turn = studies.turn(study_id, number, key=f"task {number}")
        if turn.kind is NextActionKind.RUN:
            train(studies, turn, curves(*divmod(number, config.fold_count)))
            turn = studies.turn(study_id, number, key=f"task {number} again")
        assert turn.score is not None, turn
        scores.append(turn.score)
    return scores


def seen_by_optuna(studies: Studies, study_id: int, database: str) -> list[Any]:
    key = studies.ledger.get(study_id).key
    return optuna.load_study(study_name=key, storage=database).trials
