"""Hyperband."""

from __future__ import annotations

from typing import ClassVar

from hpo_ops.core import Action, Goal, Study
from hpo_ops.schedulers import Hyperband
from hpo_ops.schedulers._hyperband import bracket_sizes
from tests.contracts.scheduler import SchedulerContract


class TestHyperband(SchedulerContract):
    name = "hyperband"
    options: ClassVar = {"max_steps": 9, "eta": 3}
    bad_options = (("eta", 1), ("min_steps", 0), ("max_steps", 0))


def test_brackets_have_the_sizes_of_the_paper() -> None:
    assert bracket_sizes(1, 81, 3) == (81, 34, 15, 8, 5)
    sizes = [0] * 5
    for number in range(143):
        sizes[Hyperband(max_steps=81).bracket_of(number)] += 1
    assert tuple(sizes) == (81, 34, 15, 8, 5)
    assert Hyperband(max_steps=81).bracket_of(143) == 0


def test_trials_are_judged_among_their_bracket_only() -> None:
    hyperband = Hyperband(max_steps=3, eta=3)  # brackets of 3 and 2 trials
    study = Study(Goal(trials=10))
    decisions = []
    for number in range(8):
        study.add()
        study.start(number)
        study.record(number, 1, 1.0 - number / 10)
        decisions.append(hyperband.on_report(study, study.trials[number], 0.0).action)
    judged = [number for number in range(8) if hyperband.bracket_of(number) == 0]
    stopped = [number for number, action in enumerate(decisions) if action is Action.STOP]
    assert judged == [0, 1, 2, 5, 6, 7]
    assert stopped == [2, 5, 6, 7]
