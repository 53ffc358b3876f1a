"""Bandit, EarlyTerm and POP."""

from __future__ import annotations

from typing import ClassVar

import pytest

from hpo_ops.core import Action, Direction, Goal, Study, TrialState
from hpo_ops.schedulers import Bandit, EarlyTerm, Pop
from hpo_ops.schedulers.pop_slots import divide_slots
from hpo_ops.schedulers.slot_filling import waiting_trials
from hpo_ops.schedulers.target_probabilities import probability_to_reach
from tests.contracts.scheduler import SchedulerContract, SteadyForecast


class TestBandit(SchedulerContract):
    name = "bandit"
    options: ClassVar = {"boundary": 2, "max_steps": 6}
    bad_options = (("boundary", 0), ("epsilon", -0.5), ("max_steps", 0))

    def test_the_range_needs_both_ends_in_order(self) -> None:
        with pytest.raises(ValueError, match="high is null"):
            Bandit(low=0.0)
        with pytest.raises(ValueError, match=r"high is -1\.0, but must be more than low"):
            Bandit(low=0.0, high=-1.0)


class TestEarlyTerm(SchedulerContract):
    name = "early_term"
    options: ClassVar = {"boundary": 3, "max_steps": 6}
    bad_options = (("boundary", 0), ("min_probability", 1.5), ("max_steps", 0))


class TestPop(SchedulerContract):
    name = "pop"
    options: ClassVar = {"boundary": 2, "max_steps": 6, "kill_threshold": 0.0}
    bad_options = (
        ("boundary", 0),
        ("min_probability", -1),
        ("max_steps", 0),
        ("slots_per_trial", 0),
        ("target_increment", -1),
    )


def started(goal: Goal, *curves: list[float]) -> Study:
    study = Study(goal)
    for number, curve in enumerate(curves):
        study.add()
        study.start(number)
        for step, value in enumerate(curve, start=1):
            study.record(number, step, value, 60.0)
    return study


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


@pytest.mark.parametrize(
    ("chances", "places", "k", "threshold", "effective", "slots", "promising"),
    [
        ([0.9, 0.8, 0.8, 0.5, 0.3, 0.1], 4, 1, 0.8, 3.0, 3, 3),
        ([0.9, 0.8, 0.8, 0.5, 0.3, 0.1], 15, 1, 0.3, 4.5, 4, 5),
        ([0.08, 0.06, 0.06, 0.05], 4, 1, 0.08, 0.32, 0, 0),
        ([0.95, 0.9, 0.2], 8, 2, 0.9, 4.0, 4, 2),
        ([0.6] * 4, 5, 1, 0.6, 3.0, 3, 4),
    ],
)
def test_the_slot_table(  # HD-3
    chances: list[float],
    places: int,
    k: int,
    threshold: float,
    effective: float,
    slots: int,
    promising: int,
) -> None:
    division = divide_slots(chances, places, k)
    assert division.threshold == threshold
    assert division.effective == pytest.approx(effective)
    assert division.slots == slots
    assert sum(division.is_promising(chance) for chance in chances) == promising


@pytest.mark.parametrize(("chance", "stops"), [(0.05, False), (0.0499, True)])
def test_five_percent_lives(chance: float, stops: bool) -> None:  # HD-5
    study = started(Goal(trials=5, target=0.9), [0.5] * 10)
    study.set_forecast(0, SteadyForecast(chance))
    decision = Pop(max_steps=100).on_report(study, study.trials[0], 600.0)
    assert (decision.action is Action.STOP) is stops


def test_a_reward_at_the_kill_threshold_stops_before_any_prediction() -> None:  # HD-7
    study = started(Goal(trials=5, target=200.0), [-100.0] * 10)
    pop = Pop(max_steps=100, kill_threshold=-100.0)
    decision = pop.on_report(study, study.trials[0], 600.0)
    assert decision.action is Action.STOP
    assert "kill threshold" in decision.reason


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


def test_labels_order_those_that_wait() -> None:  # HD-10
    study = started(Goal(trials=3), [0.1], [0.1], [0.1])
    for number, priority in enumerate((0.2, None, 0.9)):
        study.move(number, TrialState.PAUSED)
        study.trials[number].priority = priority
    assert [trial.number for trial in waiting_trials(study, 3)] == [2, 0, 1]


def test_a_failed_fit_decides_nothing() -> None:  # HD-12
    study = started(Goal(trials=5, target=0.9), [0.5] * 30)
    for scheduler in (Pop(max_steps=100), EarlyTerm(max_steps=100)):
        decision = scheduler.on_report(study, study.trials[0], 600.0)
        assert decision.action is Action.CONTINUE
        assert decision.reason == "no forecast of its learning curve, so it continues"


def chances_study(*chances: float, trials: int = 20) -> Study:
    study = started(Goal(trials=trials, target=0.9), *([0.5] * 10 for _ in chances))
    for trial, chance in zip(study.trials, chances, strict=True):
        study.set_forecast(trial.number, SteadyForecast(chance))
    study.slots = 4
    return study


def test_the_promising_go_on_and_the_opportunistic_take_turns() -> None:
    study = chances_study(0.9, 0.8, 0.8, 0.5, 0.3, 0.1)
    pop = Pop(max_steps=100)
    actions = [pop.on_report(study, trial, 600.0).action for trial in study.trials]
    assert actions == [Action.CONTINUE] * 3 + [Action.PAUSE] * 3


def test_promising_trials_are_resumed_best_first_then_new_ones_then_those_in_turn() -> None:
    study = chances_study(0.3, 0.8, 0.5, 0.9, 0.8, trials=6)
    for number in (2, 0, 1, 3, 4):
        study.move(number, TrialState.PAUSED)
    group = Pop(max_steps=100).next(study, 6, 600.0)
    assert [member.trial for member in group.members] == [3, 1, 4, None, 2, 0]


def test_no_more_promising_trials_than_their_places_while_others_wait() -> None:
    study = chances_study(0.6, 0.6, 0.6, 0.6, 0.1)
    study.slots = 5
    for number in range(5):
        study.move(number, TrialState.PAUSED)
    group = Pop(max_steps=100).next(study, 5, 600.0)
    assert [member.trial for member in group.members] == [0, 1, 2, None, None]


def test_an_opportunistic_trial_goes_on_where_none_waits() -> None:
    study = chances_study(0.9, 0.1, trials=2)
    assert Pop(max_steps=100).on_report(study, study.trials[1], 0.0).action is Action.CONTINUE


def test_only_steps_before_the_deadline_count() -> None:
    class Late:
        def probability(self, score: float, *, by_step: int) -> float:
            return 1.0 if by_step >= 20 else 0.0

    for deadline, action in ((1200.0, Action.CONTINUE), (1199.0, Action.STOP)):
        goal = Goal(trials=1, target=0.9, deadline_seconds=deadline)
        study = started(goal, [0.5] * 10)
        study.set_forecast(0, Late())
        assert Pop(max_steps=100).on_report(study, study.trials[0], 600.0).action is action


def test_without_a_target_the_target_rises_with_the_best() -> None:
    asked: list[float] = []

    class Asked:
        def probability(self, score: float, *, by_step: int) -> float:
            asked.append(score)
            return 0.5

    study = started(Goal(trials=2), [0.5] * 10)
    study.set_forecast(0, Asked())
    pop = Pop(max_steps=100, target_increment=0.01)
    pop.on_report(study, study.trials[0], 0.0)
    study.record(0, 20, 0.6)
    pop.on_report(study, study.trials[0], 0.0)
    assert set(asked) == {0.51, 0.61}


def test_a_chance_is_the_greatest_on_the_way() -> None:
    class Hump:
        def probability(self, score: float, *, by_step: int) -> float:
            return 0.9 if 40 <= by_step < 60 else 0.1

    assert probability_to_reach(Hump(), 0.5, 10, 90) == 0.9
    assert probability_to_reach(Hump(), 0.5, 10, 10) == 0.0
