"""ASHA in its promoting form."""

from __future__ import annotations

from typing import ClassVar

from hpo_ops.core import Goal, Study, TrialState
from hpo_ops.schedulers import AshaPromoting
from tests.contracts.scheduler import Live, SchedulerContract
from tests.schedulers.arriving_trials import arrive


class TestAshaPromoting(SchedulerContract):
    name = "asha_promoting"
    options: ClassVar = {"max_steps": 9, "eta": 3}
    bad_options = (("eta", 1), ("min_steps", 0), ("max_steps", 0))


def test_the_promotion_trace() -> None:  # HS-7
    study, asha = Study(Goal(trials=9)), AshaPromoting(max_steps=9, eta=3)
    goes_on = []
    for number, value in enumerate((0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.55, 0.2, 0.65)):
        if arrive(study, asha, value).startswith("continue"):
            goes_on.append(number)
        promoted = [member.trial for member in asha.next(study, 1, 0.0).members]
        if number < 2:
            assert promoted == [None]
        if number == 2:
            assert promoted == [1]
    assert goes_on == [3, 5, 8]


def test_the_top_rung_is_looked_at_first() -> None:
    study, asha = Study(Goal(trials=20)), AshaPromoting(max_steps=27, eta=3)
    for value in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        number = study.add().number
        study.start(number)
        study.record(number, 1, value)
        study.move(number, TrialState.PAUSED)
    for number in (3, 4, 5):
        study.start(number)
        study.record(number, 3, 0.5 + number / 10)
        study.move(number, TrialState.PAUSED)
    group = asha.next(study, 3, 0.0)
    assert [member.trial for member in group.members] == [5, None, None]
    assert group.members[0].reason == "trial 5 is promoted from rung 3"


def test_an_interrupted_trial_goes_on_first_whatever_its_rank() -> None:
    study, asha = Study(Goal(trials=20)), AshaPromoting(max_steps=27, eta=3)
    for number, value in enumerate((0.9, 0.8, 0.1)):
        study.add()
        study.start(number)
        study.record(number, 1, value)
    study.record(2, 2, 0.1)
    study.move(2, TrialState.PAUSED)
    assert asha.next(study, 1, 0.0).members[0].trial == 2


def test_a_study_ends_with_a_full_length_trial() -> None:
    live = Live(AshaPromoting(max_steps=27, eta=3), trials=5)
    live.run()
    assert len(live.study.in_state(TrialState.COMPLETED)) == 1
    assert live.study.in_state(TrialState.PAUSED)
