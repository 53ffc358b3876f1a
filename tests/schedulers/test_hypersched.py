"""HyperSched."""

from __future__ import annotations

from typing import ClassVar

import pytest

from hpo_ops.core import Action, Goal, Study, TrialState
from hpo_ops.schedulers import Asha, HyperSched
from hpo_ops.schedulers._hypersched import Variant
from tests.contracts.scheduler import Live, SchedulerContract
from tests.schedulers.deadline_studies import running


class TestHyperSched(SchedulerContract):
    name = "hypersched"
    options: ClassVar = {"max_steps": 16, "eta": 4}
    bad_options = (("eta", 1), ("min_steps", 0), ("max_steps", 0), ("variant", "other"))


class TestHyperSchedStopping(SchedulerContract):
    name = "hypersched"
    options: ClassVar = {"max_steps": 16, "eta": 4, "variant": "stopping"}


class TestHyperSchedPromoting(SchedulerContract):
    name = "hypersched"
    options: ClassVar = {"max_steps": 16, "eta": 4, "variant": "promoting"}


class TestHyperSchedAsPublished(SchedulerContract):
    name = "hypersched"
    options: ClassVar = {"max_steps": 16, "eta": 4, "readmit": False}


def test_a_study_without_reports_starts_trials() -> None:
    study = Study(Goal(trials=3, deadline_seconds=10.0))
    assert len(HyperSched(max_steps=100).next(study, 2, 0.0)) == 2


@pytest.mark.parametrize(("now", "starts"), [(2799.0, 1), (2800.0, 0), (3900.0, 0)])
def test_no_trial_starts_after_the_bound(now: float, starts: int) -> None:  # HS-9
    group = HyperSched(max_steps=100).next(running(4000.0), 1, now)
    assert len(group) == starts


def test_interrupted_trials_are_resumed_when_others_are_refused() -> None:
    study = running(4000.0)
    study.add()
    study.start(2)
    study.record(2, 1, 0.1, 20.0)
    study.move(2, TrialState.PAUSED)
    study.move(0, TrialState.PAUSED)
    for readmit, dropped in ((True, ()), (False, (2,))):
        group = HyperSched(max_steps=100, readmit=readmit).next(study, 2, 3000.0)
        assert [member.trial for member in group.members] == [0]
        assert group.dropped == dropped
        assert group.reason == "1000 s are left, but a new trial needs more than 1200 s"


def test_paused_trials_are_resumed_when_the_furthest_has_completed() -> None:
    study = Study(Goal(trials=3, deadline_seconds=1000.0))
    for number, score in enumerate((0.1, 0.7, 0.9)):
        study.add()
        study.start(number)
        study.record(number, 1, score, 20.0)
    for number in (0, 1):
        study.move(number, TrialState.PAUSED)
    for step in range(2, 17):
        study.record(2, step, 0.9, 20.0)
    schedulers = [
        HyperSched(max_steps=16, variant=Variant.PROMOTING, readmit=readmit)
        for readmit in (True, False)
    ]
    assert [scheduler.next(study, 2, 850.0).dropped for scheduler in schedulers] == [(), (0, 1)]
    study.move(2, TrialState.COMPLETED)
    assert [scheduler.next(study, 2, 850.0).dropped for scheduler in schedulers] == [(), (0, 1)]
    study.goal = Goal(trials=5, deadline_seconds=1000.0)
    assert [len(scheduler.next(study, 2, 850.0)) for scheduler in schedulers] == [2, 0]
    # Nobody can come to the first judgement any more.
    assert schedulers[0].next(study, 2, 980.0).dropped == (0, 1)


def test_everything_stops_at_the_deadline() -> None:  # HS-9
    study = running(4000.0)
    for variant in Variant:
        scheduler = HyperSched(max_steps=100, variant=variant)
        assert scheduler.on_report(study, study.trials[1], 4000.0).action is Action.STOP
        assert scheduler.on_report(study, study.trials[1], 3999.0).action is Action.CONTINUE


def test_without_a_deadline_it_is_asha() -> None:
    plain = Live(Asha(max_steps=16, eta=4), trials=30)
    other = Live(HyperSched(max_steps=16, eta=4, variant=Variant.STOPPING), trials=30)
    plain.run(1000)
    other.run(1000)
    assert plain.decisions == other.decisions


def test_the_best_of_all_does_not_pause_before_a_deadline() -> None:
    for deadline, action in ((None, Action.PAUSE), (4000.0, Action.CONTINUE)):
        study = Study(Goal(trials=20, deadline_seconds=deadline))
        study.add()
        study.start(0)
        study.record(0, 1, 0.5, 20.0)
        scheduler = HyperSched(max_steps=100, variant=Variant.PROMOTING)
        assert scheduler.on_report(study, study.trials[0], 20.0).action is action


def test_what_was_paused_in_retrospect_is_dropped_once_refused() -> None:
    study = Study(Goal(trials=20, deadline_seconds=1000.0))
    for number, score in enumerate((0.1, 0.7, 0.8, 0.9)):
        study.add()
        study.start(number)
        study.record(number, 1, score, 20.0)
        study.record(number, 2, score, 20.0)
    study.move(0, TrialState.PAUSED)
    study.move(3, TrialState.PAUSED)
    group = HyperSched(max_steps=100, readmit=False).next(study, 4, 990.0)
    assert [member.trial for member in group.members] == [3]
    assert group.dropped == (0,)
