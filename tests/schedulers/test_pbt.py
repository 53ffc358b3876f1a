"""Population-based training."""

from __future__ import annotations

from typing import ClassVar

from hpo_ops.core import Action, Goal, Study, TrialState
from hpo_ops.schedulers import Pbt
from tests.contracts.scheduler import SchedulerContract


class TestPbt(SchedulerContract):
    name = "pbt"
    options: ClassVar = {"population": 4, "max_steps": 9, "interval": 3, "share": 0.25}
    bad_options = (
        ("population", 1),
        ("max_steps", 0),
        ("interval", 0),
        ("share", 0.6),
        ("factors", []),
    )


def population() -> Study:
    study = Study(Goal(trials=10))
    for number in range(4):
        study.add({"lr": 0.1 * (number + 1), "layers": 10, "optimizer": "sgd", "nesterov": True})
        study.start(number)
        for step in range(1, 4):
            study.record(number, step, number / 10)
    return study


def test_the_worst_ends_and_a_changed_copy_of_the_best_takes_its_place() -> None:
    study, pbt = population(), Pbt(population=4, max_steps=30, interval=3, share=0.25)
    actions = [pbt.on_report(study, trial, 0.0).action for trial in study.trials]
    assert actions == [Action.STOP, *[Action.CONTINUE] * 3]
    study.move(0, TrialState.PRUNED)
    group = pbt.next(study, 2, 0.0)
    assert len(group) == 1
    member = group.members[0]
    assert member.trial is None
    assert member.parent == 3
    assert member.params is not None
    assert member.params["lr"] in (0.4 * 0.8, 0.4 * 1.2)
    assert member.params["layers"] in (8, 12)
    assert (member.params["optimizer"], member.params["nesterov"]) == ("sgd", True)


def test_the_first_population_comes_from_the_sampler() -> None:
    group = Pbt(population=4, max_steps=30).next(Study(Goal(trials=10)), 6, 0.0)
    assert [(member.parent, member.params) for member in group.members] == [(None, None)] * 4
