"""Studies with a deadline."""

from __future__ import annotations

from hpo_ops.core import Goal, Study


def running(deadline: float) -> Study:
    study = Study(Goal(trials=20, deadline_seconds=deadline))
    for number in range(2):
        study.add()
        study.start(number)
        for step in range(1, 16 if number else 4):
            study.record(number, step, 0.5, 20.0)
    return study
