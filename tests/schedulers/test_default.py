"""Default."""

from __future__ import annotations

from typing import ClassVar

from hpo_ops.core import Action, Goal, Study, TrialState
from hpo_ops.schedulers import Default
from tests.contracts.scheduler import Live, SchedulerContract


class TestDefault(SchedulerContract):
    name = "default"
    options: ClassVar = {"max_steps": 6}
    bad_options = (("max_steps", 0), ("max_steps", 2.5))


def test_it_starts_as_many_trials_as_there_are_places() -> None:
    group = Default().next(Study(Goal(trials=10)), free=4, now=0.0)
    assert [member.trial for member in group.members] == [None] * 4
    assert [member.until_step for member in group.members] == [None] * 4


def test_paused_and_waiting_trials_come_before_new_ones_by_number() -> None:
    study = Study(Goal(trials=5))
    for _ in range(3):
        study.add()
    study.start(2)
    study.move(2, TrialState.PAUSED)
    study.start(0)
    group = Default(max_steps=3).next(study, free=3, now=0.0)
    assert [member.trial for member in group.members] == [1, 2, None]


def test_every_trial_runs_to_its_end() -> None:
    live = Live(Default(max_steps=4), trials=7)
    live.run()
    assert [trial.step for trial in live.study.trials] == [4] * 7
    assert {decision.action for decision in live.decisions} == {Action.CONTINUE}
