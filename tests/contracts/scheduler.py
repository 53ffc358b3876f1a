"""The contract of schedulers: the tests of each scheduler inherit this class."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields
from random import Random
from typing import Any, ClassVar

import pytest

from hpo_ops.core import Action, Decision, Goal, Scheduler, Study, TrialGroup, TrialState
from hpo_ops.schedulers import SCHEDULERS, create_scheduler, may_pause, why_rolling


class SteadyForecast:
    """A forecast with the same probability for every score."""

    def __init__(self, chance: float) -> None:
        self.chance = chance

    def probability(self, score: float, *, by_step: int) -> float:
        return self.chance


class Live:
    """A study with made-up curves under a scheduler, and the scheduler's answers."""

    def __init__(
        self, scheduler: Scheduler, *, trials: int = 12, slots: int = 3, seed: int = 0, **goal: Any
    ) -> None:
        self.scheduler = scheduler
        self.study = Study(Goal(trials=trials, **goal))
        self.slots = slots
        self.random = Random(seed)  # noqa: S311
        self.now = 0.0
        self.groups: list[tuple[int, TrialGroup]] = []
        self.decisions: list[Decision] = []
        self.until: dict[int, int | None] = {}

    def run(self, rounds: int = 200) -> None:
        for _ in range(rounds):
            self.place()
            if not self.study.in_state(TrialState.RUNNING):
                return
            self.advance()

    def place(self) -> None:
        free = self.slots - len(self.study.in_state(TrialState.RUNNING))
        before = {trial.number: trial.state for trial in self.study.trials}
        group = self.scheduler.next(self.study, free, self.now)
        self.groups.append((free, group))
        assert len(group) <= max(free, 0)
        numbers = [member.trial for member in group.members if member.trial is not None]
        assert len(set(numbers)) == len(numbers)
        for member in group.members:
            number = self.study.add().number if member.trial is None else member.trial
            state = before.get(number, TrialState.WAITING)
            assert state in (TrialState.WAITING, TrialState.PAUSED)
            self.study.start(number)
            self.until[number] = member.until_step
        assert len(self.study.trials) <= self.study.goal.trials
        for number in group.dropped:
            assert before[number] in (TrialState.WAITING, TrialState.PAUSED)
            self.study.move(number, TrialState.PRUNED)

    def advance(self) -> None:
        self.now += 10.0
        for number in list(self.study.in_state(TrialState.RUNNING)):
            trial = self.study.trials[number]
            step = trial.step + 1
            value = (number * 7 % 11) / 11 * (1 - 0.7**step) + self.random.gauss(0, 0.01)
            self.study.record(number, step, value, 10.0)
            self.study.set_forecast(number, SteadyForecast((number * 5 % 7) / 7))
            decision = self.scheduler.on_report(self.study, trial, self.now)
            self.decisions.append(decision)
            self.settle(number, decision)

    def settle(self, number: int, decision: Decision) -> None:
        step = self.study.trials[number].step
        last = self.scheduler.max_steps or 20
        if step >= last:
            self.study.move(number, TrialState.COMPLETED)
        elif decision.action is Action.STOP:
            self.study.move(number, TrialState.PRUNED)
        elif decision.action is Action.PAUSE or step >= (self.until[number] or last):
            self.study.move(number, TrialState.PAUSED)


class SchedulerContract:
    """Inherit, and set ``name`` and ``options``; ``bad_options`` are (option, value) pairs."""

    name: str
    options: ClassVar[Mapping[str, object]]
    bad_options: tuple[tuple[str, object], ...] = ()

    def make(self) -> Scheduler:
        return create_scheduler(self.name, self.options)

    def test_it_is_registered_under_its_name(self) -> None:
        assert type(self.make()) is SCHEDULERS[self.name]

    def test_it_has_every_attribute_of_the_port(self) -> None:
        scheduler = self.make()
        assert type(scheduler.pauses) is bool
        assert type(scheduler.copies) is bool
        assert scheduler.max_steps is None or scheduler.max_steps >= 1
        rungs, every = scheduler.rungs, scheduler.forecast_every
        assert rungs is None or list(rungs) == sorted(set(rungs))
        assert every is None or (every >= 1 and scheduler.max_steps is not None)

    def test_its_flow_is_known_from_its_name(self) -> None:
        scheduler = self.make()
        assert may_pause(self.name) is scheduler.pauses
        assert (why_rolling(self.name) is not None) is (scheduler.pauses or scheduler.copies)

    def test_it_pauses_trials_only_if_it_says_so(self) -> None:
        live = Live(self.make())
        live.run()
        paused = any(decision.action is Action.PAUSE for decision in live.decisions)
        assert live.scheduler.pauses or not paused

    def test_it_copies_trials_only_if_it_says_so(self) -> None:
        live = Live(self.make(), trials=30)
        live.run()
        members = [member for _, group in live.groups for member in group.members]
        copied = any(member.parent is not None for member in members)
        assert live.scheduler.copies or not copied

    def test_segments_at_the_barrier_end_at_a_rung(self) -> None:
        scheduler = self.make()
        if scheduler.rungs is None:
            return
        live = Live(scheduler, at_barrier=True)
        live.run()
        ends = {member.until_step for _, group in live.groups for member in group.members}
        assert ends <= {*scheduler.rungs, scheduler.max_steps}

    def test_a_study_runs_to_its_end_and_every_answer_has_a_reason(self) -> None:
        live = Live(self.make())
        live.run()
        assert not live.study.in_state(TrialState.RUNNING)
        assert live.study.trials
        assert all(decision.reason.strip() for decision in live.decisions)
        for _, group in live.groups:
            assert group.reason.strip()
            assert all(member.reason.strip() for member in group.members)

    def test_a_study_at_the_barrier_ends(self) -> None:
        live = Live(self.make(), at_barrier=True)
        live.run()
        assert not live.study.in_state(TrialState.RUNNING)

    def test_decisions_are_continue_pause_or_stop(self) -> None:
        live = Live(self.make())
        live.run()
        allowed = {Action.CONTINUE, Action.PAUSE, Action.STOP}
        assert {decision.action for decision in live.decisions} <= allowed

    def test_the_same_inputs_give_the_same_outputs(self) -> None:
        first, second = Live(self.make(), seed=3), Live(self.make(), seed=3)
        first.run()
        second.run()
        assert first.decisions == second.decisions
        assert first.groups == second.groups

    def test_asking_twice_changes_nothing(self) -> None:
        live = Live(self.make())
        for _ in range(4):
            live.place()
            live.advance()
        scheduler, study = live.scheduler, live.study
        assert scheduler.next(study, 2, live.now) == scheduler.next(study, 2, live.now)
        for trial in study.in_state(TrialState.RUNNING).values():
            again = [scheduler.on_report(study, trial, live.now) for _ in range(2)]
            assert again[0] == again[1]

    def test_it_is_frozen(self) -> None:
        scheduler: Any = self.make()
        for item in fields(scheduler):
            with pytest.raises(FrozenInstanceError):
                setattr(scheduler, item.name, None)

    def test_no_free_slot_gets_no_trial_and_says_why(self) -> None:
        for free in (0, -1):
            group = self.make().next(Study(Goal(trials=5)), free, 0.0)
            assert len(group) == 0
            assert "free" in group.reason

    def test_no_trial_left_gets_no_trial_and_says_why(self) -> None:
        group = self.make().next(Study(Goal(trials=0)), 4, 0.0)
        assert len(group) == 0
        assert group.reason.strip()

    def test_it_survives_pickling(self) -> None:
        scheduler = self.make()
        assert pickle.loads(pickle.dumps(scheduler)) == scheduler  # noqa: S301

    def test_its_options_survive_json(self) -> None:
        scheduler: Any = self.make()
        options = {item.name: getattr(scheduler, item.name) for item in fields(scheduler)}
        assert create_scheduler(self.name, json.loads(json.dumps(options))) == scheduler

    def test_an_unknown_option_is_named_with_the_allowed_ones(self) -> None:
        with pytest.raises(ValueError, match=r"scheduler\.nonsense is not an option; allowed: "):
            create_scheduler(self.name, {**self.options, "nonsense": 1})

    def test_a_bad_option_is_named_with_what_was_found(self) -> None:
        for option, value in self.bad_options:
            with pytest.raises(ValueError, match=rf"scheduler\.{option} is .*, but must be ") as e:
                create_scheduler(self.name, {**self.options, option: value})
            assert str(value) in str(e.value)

    def test_a_value_of_the_wrong_type_is_named(self) -> None:
        scheduler: Any = self.make()
        for item in fields(scheduler):
            with pytest.raises(ValueError, match=rf"scheduler\.{item.name} is .*, but must be "):
                create_scheduler(self.name, {**self.options, item.name: b"bytes"})

    def test_a_score_that_is_no_number_does_not_break_it(self) -> None:
        study = Study(Goal(trials=5))
        scheduler = self.make()
        for number in range(4):
            study.add()
            study.start(number)
            study.record(number, 1, float("nan"), 1.0)
            decision = scheduler.on_report(study, study.trials[number], 1.0)
            assert decision.reason
