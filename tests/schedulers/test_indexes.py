"""What schedulers keep up about a study: the same as looking at all of it anew."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import pytest

from hpo_ops.core import Goal, Scheduler, Study, TrialState
from hpo_ops.schedulers import AshaPromoting, AshaSpeculative, Halving, Hyperband, HyperSched

TRIALS = 24


class Happening(NamedTuple):
    """A trial reports so many steps later, or starts, or pauses, perhaps by a decision."""

    trial: int
    kind: str
    steps: int
    value: float


def happenings(seed: int) -> list[Happening]:
    random = Random(seed)  # noqa: S311
    kinds = ("report", "report", "report", "start", "pause", "decided")
    return [
        Happening(
            random.randrange(TRIALS),
            random.choice(kinds),
            random.choice((1, 1, 1, 2, 3)),
            # Values that rise, then fall: cuts go both ways.
            random.random() + abs(when - 200) / 200,
        )
        for when in range(400)
    ]


def study_after(seen: Sequence[Happening]) -> Study:
    study = Study(Goal(trials=TRIALS))
    for number in range(TRIALS):
        study.add()
        study.start(number)
    for what in seen:
        happen(study, what)
    return study


def happen(study: Study, what: Happening) -> None:
    trial = study.trials[what.trial]
    is_interrupted = trial.state is TrialState.PAUSED and trial.decided_step is None
    if what.kind == "report" and is_interrupted:
        return  # nothing trains; one that was decided on may not have heard of it yet
    if what.kind == "report":
        study.record(trial.number, trial.step + what.steps, what.value, 1.0)
    elif what.kind == "start":
        study.start(trial.number)
    elif trial.observations:
        decided = trial.step if what.kind == "decided" else None
        study.move(trial.number, TrialState.PAUSED, decided_step=decided)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "scheduler",
    [
        AshaPromoting(max_steps=40, eta=2),
        AshaSpeculative(max_steps=40, eta=2),
        AshaSpeculative(max_steps=64, eta=4),
        Halving(max_steps=40, eta=2),
        Hyperband(max_steps=27),
        HyperSched(max_steps=40, eta=2),
    ],
    ids=str,
)
def test_asking_all_along_gives_the_same_as_asking_once(scheduler: Scheduler, seed: int) -> None:
    seen = happenings(seed)
    asked = study_after(())
    for count, what in enumerate(seen, start=1):
        happen(asked, what)
        group = scheduler.next(asked, TRIALS, 0.0)
        if count % 4:
            continue
        fresh = study_after(seen[:count])
        assert group == scheduler.next(fresh, TRIALS, 0.0)
        ours, theirs = asked.trials[what.trial], fresh.trials[what.trial]
        if ours.observations:
            assert scheduler.on_report(asked, ours, 0.0) == scheduler.on_report(fresh, theirs, 0.0)
