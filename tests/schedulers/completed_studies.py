"""Studies of completed trials and a running one."""

from __future__ import annotations

from hpo_ops.core import Action, Direction, Goal, Study, TrialState
from hpo_ops.schedulers import Median, Patient, Percentile, Threshold


def study_of(*curves: list[float], direction: Direction = Direction.MAXIMIZE) -> Study:
    """A study of whole trials with these curves, and one that runs."""
    study = Study(Goal(trials=20, direction=direction))
    for curve in curves:
        number = study.add().number
        study.start(number)
        for step, value in enumerate(curve, start=1):
            study.record(number, step, value)
        study.move(number, TrialState.COMPLETED)
    study.start(study.add().number)
    return study


def decide(
    scheduler: Median | Percentile | Patient | Threshold, study: Study, *values: float
) -> Action:
    trial = study.trials[-1]
    decision = scheduler.on_report(study, trial, 0.0) if not values else None
    for value in values:
        study.record(trial.number, trial.step + 1, value)
        decision = scheduler.on_report(study, trial, 0.0)
    assert decision is not None
    return decision.action
