"""Studies in progress."""

from __future__ import annotations

from hpo_ops.core import Goal, Study


def started(goal: Goal, *curves: list[float]) -> Study:
    study = Study(goal)
    for number, curve in enumerate(curves):
        study.add()
        study.start(number)
        for step, value in enumerate(curve, start=1):
            study.record(number, step, value, 60.0)
    return study
