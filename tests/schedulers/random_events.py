"""Random events of a study."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from hpo_ops.core import Goal, Study, TrialState

TRIALS = 24


class Event(NamedTuple):
    """A trial reports so many steps later, or starts, or pauses, perhaps by a decision."""

    trial: int
    kind: str
    steps: int
    value: float


def random_events(seed: int) -> list[Event]:
    random = Random(seed)  # noqa: S311
    kinds = ("report", "report", "report", "start", "pause", "decided")
    return [
        Event(
            random.randrange(TRIALS),
            random.choice(kinds),
            random.choice((1, 1, 1, 2, 3)),
            # Values that rise, then fall: cuts go both ways.
            random.random() + abs(when - 200) / 200,
        )
        for when in range(400)
    ]


def study_after(seen: Sequence[Event], goal: Goal | None = None) -> Study:
    study = Study(goal or Goal(trials=TRIALS))
    for number in range(TRIALS):
        study.add()
        study.start(number)
    for what in seen:
        apply_event(study, what)
    return study


def apply_event(study: Study, what: Event) -> None:
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
