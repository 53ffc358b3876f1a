"""EarlyTerm."""

from __future__ import annotations

from typing import ClassVar

from hpo_ops.core import Action, Goal
from hpo_ops.schedulers import EarlyTerm
from tests.contracts.scheduler import SchedulerContract
from tests.schedulers.started_studies import started


class TestEarlyTerm(SchedulerContract):
    name = "early_term"
    options: ClassVar = {"boundary": 3, "max_steps": 6}
    bad_options = (("boundary", 0), ("min_probability", 1.5), ("max_steps", 0))


def test_early_term_compares_with_the_best_of_all_not_the_target() -> None:
    class Above:
        def probability(self, score: float, *, by_step: int) -> float:
            return 1.0 if score <= 0.6 and by_step == 60 else 0.0

    study = started(Goal(trials=2, target=0.99), [0.6], [0.1] * 30)
    study.set_forecast(1, Above())
    rule = EarlyTerm(max_steps=60)
    assert rule.on_report(study, study.trials[1], 0.0).action is Action.CONTINUE
    study.record(0, 2, 0.7)
    assert rule.on_report(study, study.trials[1], 0.0).action is Action.STOP
