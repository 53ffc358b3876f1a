"""Speculative ASHA."""

from __future__ import annotations

from typing import ClassVar

import pytest

from hpo_ops.core import Action, Goal, Study, TrialState
from hpo_ops.schedulers import AshaSpeculative
from tests.contracts.scheduler import SchedulerContract
from tests.schedulers.arriving_trials import arrive


class TestAshaSpeculative(SchedulerContract):
    name = "asha_speculative"
    options: ClassVar = {"max_steps": 16, "eta": 4}
    bad_options = (("eta", 1), ("min_steps", 0), ("max_steps", 0))


def test_the_speculative_trace() -> None:  # HS-8
    study, asha = Study(Goal(trials=20)), AshaSpeculative(max_steps=64, eta=4)
    said = [arrive(study, asha, value) for value in (0.5, 0.6, 0.4, 0.7, 0.65, 0.55, 0.8)]
    actions = [text.partition(":")[0] for text in said]
    assert actions == ["continue", "continue", "pause", *["continue"] * 2, "pause", "continue"]
    assert "0.575" in said[2]
    assert "0.65" in said[5]
    study.record(1, 2, 0.9)
    later = asha.on_report(study, study.trials[1], 0.0)
    assert later.action is Action.PAUSE
    assert "0.675" in later.reason


@pytest.mark.parametrize("value", [0.1, 0.9])
def test_a_paused_trial_is_resumed_when_it_is_above_every_cutoff_again(value: float) -> None:
    study, asha = Study(Goal(trials=4)), AshaSpeculative(max_steps=64, eta=4)
    for start in (0.8, 0.9, 0.7):
        arrive(study, asha, start)
    assert 2 in study.in_state(TrialState.PAUSED)
    for number in (0, 1):
        study.trials[number].observations.clear()
    fresh = Study(Goal(trials=4))
    for number, score in enumerate((0.7, value, 0.2)):
        fresh.add()
        fresh.start(number)
        fresh.record(number, 1, score)
    fresh.move(0, TrialState.PAUSED)
    group = asha.next(fresh, 1, 0.0)
    assert [member.trial for member in group.members] == ([0] if value < 0.7 else [None])


def test_trials_paused_in_retrospect_do_not_hide_one_that_was_interrupted() -> None:
    study, asha = Study(Goal(trials=9)), AshaSpeculative(max_steps=64, eta=4)
    for number, score in enumerate((0.1, 0.2, 0.3, 0.9, 0.8)):
        study.add()
        study.start(number)
        study.record(number, 1, score)
        study.record(number, 2, score)
    for number in (0, 1, 3):
        study.move(number, TrialState.PAUSED)
    group = asha.next(study, 1, 0.0)
    assert [member.trial for member in group.members] == [3]
