"""Bandit."""

from __future__ import annotations

from typing import ClassVar

import pytest

from hpo_ops.core import Action, Direction, Goal
from hpo_ops.schedulers import Bandit
from tests.contracts.scheduler import SchedulerContract
from tests.schedulers.started_studies import started


class TestBandit(SchedulerContract):
    name = "bandit"
    options: ClassVar = {"boundary": 2, "max_steps": 6}
    bad_options = (("boundary", 0), ("epsilon", -0.5), ("max_steps", 0))

    def test_the_range_needs_both_ends_in_order(self) -> None:
        with pytest.raises(ValueError, match="high is null"):
            Bandit(low=0.0)
        with pytest.raises(ValueError, match=r"high is -1\.0, but must be more than low"):
            Bandit(low=0.0, high=-1.0)


@pytest.mark.parametrize(("own", "action"), [(0.30, Action.STOP), (0.31, Action.CONTINUE)])
def test_bandit_rows(own: float, action: Action) -> None:  # HD-6
    study = started(Goal(trials=2), [0.45], [0.0] * 9 + [own])
    assert Bandit().on_report(study, study.trials[1], 0.0).action is action


def test_bandit_never_stops_the_best_of_all() -> None:
    study = started(Goal(trials=2), [-100.0] * 10, [-200.0] * 10)
    assert Bandit().on_report(study, study.trials[0], 0.0).action is Action.CONTINUE
    assert Bandit().on_report(study, study.trials[1], 0.0).action is Action.CONTINUE


def test_rewards_are_normalised_by_their_range() -> None:
    bandit = Bandit(low=-500.0, high=300.0)
    study = started(Goal(trials=3), [200.0], [-100.0] * 10, [0.0] * 10)
    assert bandit._normalise(study, -100.0) == 0.5
    assert bandit._normalise(study, 200.0) == 0.875
    assert bandit.on_report(study, study.trials[1], 0.0).action is Action.STOP
    assert bandit.on_report(study, study.trials[2], 0.0).action is Action.CONTINUE


def test_a_loss_can_be_normalised_too() -> None:
    goal = Goal(trials=2, direction=Direction.MINIMIZE)
    study = started(goal, [0.5], [9.0] * 10)
    assert Bandit(low=0.0, high=10.0).on_report(study, study.trials[1], 0.0).action is Action.STOP
