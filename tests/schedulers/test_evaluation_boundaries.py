"""Evaluation boundaries."""

from __future__ import annotations

import pytest

from hpo_ops.core import Action, Goal
from hpo_ops.schedulers import Bandit, EarlyTerm, Pop
from tests.contracts.scheduler import SteadyForecast
from tests.schedulers.started_studies import started


@pytest.mark.parametrize(
    "scheduler",
    [Pop(max_steps=100, kill_threshold=0.9), EarlyTerm(boundary=10, max_steps=100), Bandit()],
)
def test_nothing_is_decided_off_a_boundary(scheduler: Pop | EarlyTerm | Bandit) -> None:  # HD-8
    study = started(Goal(trials=5, target=0.99), [0.9], [])
    for step in range(1, 30):
        study.record(1, step, 0.1)
        study.set_forecast(1, SteadyForecast(0.0))
        action = scheduler.on_report(study, study.trials[1], 600.0).action
        assert (action is Action.CONTINUE) is (step % 10 != 0)


def test_a_failed_fit_decides_nothing() -> None:  # HD-12
    study = started(Goal(trials=5, target=0.9), [0.5] * 30)
    for scheduler in (Pop(max_steps=100), EarlyTerm(max_steps=100)):
        decision = scheduler.on_report(study, study.trials[0], 600.0)
        assert decision.action is Action.CONTINUE
        assert decision.reason == "no forecast of its learning curve, so it continues"
