"""ASHA in its stopping form."""

from __future__ import annotations

from typing import ClassVar

from hpo_ops.core import Action, Direction, Goal, Study, TrialState
from hpo_ops.schedulers import Asha
from hpo_ops.schedulers.rungs import crossed_rungs
from tests.contracts.scheduler import Live, SchedulerContract


class TestAsha(SchedulerContract):
    name = "asha"
    options: ClassVar = {"min_steps": 1, "max_steps": 9, "eta": 3}
    bad_options = (("eta", 1), ("min_steps", 0), ("max_steps", 0), ("eta", 2.5))


def report(study: Study, step: int, value: float) -> int:
    """A new trial that starts and reports once."""
    number = study.add().number
    study.start(number)
    study.record(number, step, value)
    return number


def judge(study: Study, asha: Asha, step: int, value: float) -> tuple[Action, str]:
    decision = asha.on_report(study, study.trials[report(study, step, value)], 0.0)
    return decision.action, decision.reason


def test_a_trial_continues_with_fewer_than_two_others_at_a_rung() -> None:
    study, asha = Study(Goal(trials=9)), Asha(max_steps=9)
    assert judge(study, asha, 1, 0.9)[0] is Action.CONTINUE
    assert judge(study, asha, 1, 0.1)[0] is Action.CONTINUE
    assert judge(study, asha, 1, 0.05)[0] is Action.STOP


def test_the_reason_gives_rank_and_number_that_continue() -> None:
    study, asha = Study(Goal(trials=20)), Asha(min_steps=3, max_steps=27)
    for value in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.8, 0.9):
        report(study, 3, value)
    action, reason = judge(study, asha, 3, 0.6)
    assert action is Action.STOP
    assert reason == "ranked 4th of 9 trials at rung 3; the best 3 continue"


def test_a_report_that_passes_a_rung_is_judged_there() -> None:
    study, asha = Study(Goal(trials=20)), Asha(min_steps=3, max_steps=27)
    for value in (0.7, 0.8, 0.9):
        report(study, 3, value)
    action, reason = judge(study, asha, 4, 0.1)
    assert action is Action.STOP
    assert "rung 3" in reason


def test_a_trial_is_judged_once_a_rung() -> None:
    study, asha = Study(Goal(trials=20)), Asha(max_steps=27)
    first = report(study, 1, 0.5)
    for value in (0.7, 0.8, 0.9):
        report(study, 1, value)
    study.record(first, 2, 0.4)
    assert asha.on_report(study, study.trials[first], 0.0).action is Action.CONTINUE
    assert crossed_rungs(study.trials[first], asha.rungs) == ()


def test_a_full_length_trial_is_never_stopped() -> None:
    study, asha = Study(Goal(trials=20)), Asha(max_steps=9)
    for value in (0.7, 0.8, 0.9):
        report(study, 9, value)
    assert judge(study, asha, 9, 0.1)[0] is Action.CONTINUE


def test_at_the_barrier_a_segment_ends_at_the_next_rung() -> None:
    study, asha = Study(Goal(trials=9, at_barrier=True)), Asha(max_steps=9)
    number = report(study, 1, 0.5)
    study.move(number, TrialState.PAUSED)
    group = asha.next(study, 2, 0.0)
    assert [(member.trial, member.until_step) for member in group.members] == [(0, 3), (None, 1)]


def test_without_a_barrier_a_segment_may_run_to_the_end() -> None:
    group = Asha(max_steps=9).next(Study(Goal(trials=9)), 1, 0.0)
    assert group.members[0].until_step == 9


def test_minimising_mirrors_maximising_on_negated_values() -> None:  # HS-11
    values = (0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.55, 0.2, 0.65)
    asha = Asha(max_steps=9)
    up, down = Study(Goal(trials=9)), Study(Goal(trials=9, direction=Direction.MINIMIZE))
    assert [judge(up, asha, 1, v) for v in values] == [judge(down, asha, 1, -v) for v in values]


def test_about_one_in_eta_goes_on() -> None:
    live = Live(Asha(max_steps=9), trials=60, slots=4)
    live.run(1000)
    assert len(live.study.ranking_at(1)) == 60
    assert 15 <= len(live.study.ranking_at(3)) <= 35
    assert len(live.study.ranking_at(9)) >= 1
