"""POP."""

from __future__ import annotations

from typing import ClassVar

import pytest

from hpo_ops.core import Action, Goal, Study, TrialState
from hpo_ops.schedulers import Pop
from tests.contracts.scheduler import SchedulerContract, SteadyForecast
from tests.schedulers.started_studies import started


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


@pytest.mark.parametrize(("chance", "stops"), [(0.05, False), (0.0499, True)])
def test_a_probability_of_five_percent_continues(chance: float, stops: bool) -> None:  # HD-5
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


def probabilities_study(*chances: float, trials: int = 20) -> Study:
    study = started(Goal(trials=trials, target=0.9), *([0.5] * 10 for _ in chances))
    for trial, chance in zip(study.trials, chances, strict=True):
        study.set_forecast(trial.number, SteadyForecast(chance))
    study.slots = 4
    return study


def test_promising_trials_continue_and_opportunistic_trials_take_turns() -> None:
    study = probabilities_study(0.9, 0.8, 0.8, 0.5, 0.3, 0.1)
    pop = Pop(max_steps=100)
    actions = [pop.on_report(study, trial, 600.0).action for trial in study.trials]
    assert actions == [Action.CONTINUE] * 3 + [Action.PAUSE] * 3


def test_promising_trials_are_resumed_best_first_then_new_ones_then_those_in_turn() -> None:
    study = probabilities_study(0.3, 0.8, 0.5, 0.9, 0.8, trials=6)
    for number in (2, 0, 1, 3, 4):
        study.move(number, TrialState.PAUSED)
    group = Pop(max_steps=100).next(study, 6, 600.0)
    assert [member.trial for member in group.members] == [3, 1, 4, None, 2, 0]


def test_promising_trials_get_no_more_than_their_slots_while_others_wait() -> None:
    study = probabilities_study(0.6, 0.6, 0.6, 0.6, 0.1)
    study.slots = 5
    for number in range(5):
        study.move(number, TrialState.PAUSED)
    group = Pop(max_steps=100).next(study, 5, 600.0)
    assert [member.trial for member in group.members] == [0, 1, 2, None, None]


def test_an_opportunistic_trial_continues_if_no_other_is_waiting() -> None:
    study = probabilities_study(0.9, 0.1, trials=2)
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
