"""Running trials with scores."""

from __future__ import annotations

from collections.abc import Sequence

from hpo_ops.core import Goal, Member, Study, TrialGroup

IMAGENET = (1.0, 1.77, 2.93, 4.29)


def scored(*scores: float, startups: Sequence[float] = ()) -> tuple[Study, TrialGroup]:
    study = Study(Goal(trials=20, deadline_seconds=1000.0))
    for number, score in enumerate(scores):
        study.add()
        study.start(number).startup_seconds = startups[number] if startups else 0.0
        for step in range(1, 8):
            study.record(number, step, score, 10.0)
    members = tuple(Member(trial=n, until_step=100, reason="runs") for n in range(len(scores)))
    return study, TrialGroup(members, "all")
