"""Hyperband and synchronous halving."""

from __future__ import annotations

from typing import ClassVar

import pytest

from hpo_ops.core import Action, Goal, Study, TrialState
from hpo_ops.schedulers import Halving, Hyperband
from hpo_ops.schedulers.hyperband import bracket_sizes
from tests.contracts.scheduler import Live, SchedulerContract


class TestHyperband(SchedulerContract):
    name = "hyperband"
    options: ClassVar = {"max_steps": 9, "eta": 3}
    bad_options = (("eta", 1), ("min_steps", 0), ("max_steps", 0))


class TestHalving(SchedulerContract):
    name = "halving"
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


def test_a_rung_waits_for_all_and_the_best_third_goes_on() -> None:
    live = Live(Halving(max_steps=9, eta=3), trials=9, slots=4)
    live.run()
    reached = [sum(t.step >= rung for t in live.study.trials) for rung in (1, 3, 9)]
    assert reached == [9, 3, 1]
    best = max(live.study.trials, key=lambda trial: trial.score_at(1) or 0.0)
    assert best.step >= 3


def test_those_that_do_not_go_on_are_dropped() -> None:
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
def test_with_few_places_the_same_trials_go_on(slots: int) -> None:
    live = Live(Halving(max_steps=9, eta=3), trials=27, slots=slots)
    live.run(2000)
    assert [sum(t.step >= rung for t in live.study.trials) for rung in (1, 3, 9)] == [27, 9, 3]
