"""Filling free slots."""

from __future__ import annotations

from hpo_ops.core import Goal, TrialState
from hpo_ops.schedulers.slot_filling import fill_slots, waiting_trials
from tests.schedulers.started_studies import started


def test_paused_trials_are_ordered_by_priority() -> None:  # HD-10
    study = started(Goal(trials=3), [0.1], [0.1], [0.1])
    for number, priority in enumerate((0.2, None, 0.9)):
        study.move(number, TrialState.PAUSED)
        study.trials[number].priority = priority
    assert [trial.number for trial in waiting_trials(study, 3)] == [2, 0, 1]


def test_paused_and_waiting_trials_come_before_new_ones() -> None:
    study = started(Goal(trials=5), [0.1], [0.1])
    study.move(1, TrialState.PAUSED)
    study.add()
    group = fill_slots(study, 4, lambda step: step + 3)
    assert [(member.trial, member.until_step) for member in group.members] == [
        (1, 4), (2, 3), (None, 3), (None, 3),
    ]  # fmt: skip
    assert [member.reason for member in group.members[:3]] == [
        "trial 1 resumes from step 1",
        "trial 2 was waiting for its first segment",
        "trial 3 is new, and a slot is free",
    ]
    assert group.reason == "2 resumed and 2 new trials for 4 free slots"


def test_a_group_says_why_it_is_not_larger() -> None:
    study = started(Goal(trials=2), [0.1])
    group = fill_slots(study, 3, lambda _: 9)
    assert group.reason == (
        "0 resumed and 1 new trials for 3 free slots; all 2 trials have been started"
    )
    study.add()
    study.start(1)
    assert fill_slots(study, 1, lambda _: 9).reason == (
        "all 2 trials have been started and none is waiting"
    )
