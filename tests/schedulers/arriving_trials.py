"""Trials that arrive at rungs."""

from __future__ import annotations

from hpo_ops.core import Action, Study, TrialState
from hpo_ops.schedulers import AshaPromoting, AshaSpeculative


def arrive(study: Study, scheduler: AshaPromoting | AshaSpeculative, value: float) -> str:
    number = study.add().number
    study.start(number)
    study.record(number, 1, value)
    decision = scheduler.on_report(study, study.trials[number], 0.0)
    if decision.action is Action.PAUSE:
        study.move(number, TrialState.PAUSED)
    return f"{decision.action}: {decision.reason}"
