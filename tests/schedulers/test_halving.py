"""Synchronous halving."""

from __future__ import annotations

from typing import ClassVar

import pytest

from hpo_ops.core import Goal, Study, TrialState
from hpo_ops.schedulers import Halving
from tests.contracts.scheduler import Live, SchedulerContract


class TestHalving(SchedulerContract):
    name = "halving"
    options: ClassVar = {"max_steps": 9, "eta": 3}
    bad_options = (("eta", 1), ("min_steps", 0), ("max_steps", 0))


def test_a_rung_waits_for_all_trials_and_the_best_third_continues() -> None:
    live = Live(Halving(max_steps=9, eta=3), trials=9, slots=4)
    live.run()
    reached = [sum(t.step >= rung for t in live.study.trials) for rung in (1, 3, 9)]
    assert reached == [9, 3, 1]
    best = max(live.study.trials, key=lambda trial: trial.score_at(1) or 0.0)
    assert best.step >= 3


def test_trials_that_are_not_promoted_are_dropped() -> None:
    halving, study = Halving(max_steps=9, eta=3), Study(Goal(trials=4))
    for number, value in enumerate((0.1, 0.4, 0.3, 0.2)):
        study.add()
        study.start(number)
        study.record(number, 1, value)
        if number < 3:
            study.move(number, TrialState.PAUSED)
    assert len(halving.next(study, 1, 0.0)) == 0
    study.move(3, TrialState.PAUSED)
    group = halving.next(study, 4, 0.0)
    assert [member.trial for member in group.members] == [1]
    assert group.members[0].until_step == 3
    assert group.members[0].group == 1
    assert sorted(group.dropped) == [0, 2, 3]


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_with_few_slots_the_same_trials_continue(slots: int) -> None:
    live = Live(Halving(max_steps=9, eta=3), trials=27, slots=slots)
    live.run(2000)
    assert [sum(t.step >= rung for t in live.study.trials) for rung in (1, 3, 9)] == [27, 9, 3]
