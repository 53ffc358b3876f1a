"""What schedulers keep up about a study: the same as looking at all of it anew."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import pytest

from hpo_ops.core import Goal, Scheduler, Study, TrialState
from hpo_ops.schedulers import AshaPromoting, AshaSpeculative, Halving, Hyperband, HyperSched, Pop

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


def study_after(seen: Sequence[Happening], goal: Goal | None = None) -> Study:
    study = Study(goal or Goal(trials=TRIALS))
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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", [None, 1.5])
@pytest.mark.parametrize("deadline", [None, 150.0, 1e6])
def test_chances_kept_up_are_those_made_anew(
    seed: int, target: float | None, deadline: float | None
) -> None:
    pop = Pop(max_steps=40, boundary=4)
    goal = Goal(trials=TRIALS + 4, target=target, deadline_seconds=deadline)
    random = Random(seed)  # noqa: S311
    asked = study_after((), goal)
    seen = [what for what in happenings(seed) if what.kind != "decided"]
    forecasts: list[tuple[int, Level]] = []
    for count, what in enumerate(seen, start=1):
        happen(asked, what)
        if what.kind == "report":
            forecasts.append((what.trial, Level(random.random(), random.random())))
            asked.foretell(*forecasts[-1])
        group = pop.next(asked, TRIALS, float(count))
        if count % 8:
            continue
        fresh = study_after(seen[:count], goal)
        for number, level in forecasts:
            fresh.foretell(number, level)
        assert group == pop.next(fresh, TRIALS, float(count))
        ours, theirs = asked.trials[what.trial], fresh.trials[what.trial]
        if ours.observations:
            assert pop.on_report(asked, ours, float(count)) == pop.on_report(
                fresh, theirs, float(count)
            )


class Level(NamedTuple):
    """A forecast that rises to a chance at step 40, less for higher scores."""

    chance: float
    early: float

    def probability(self, score: float, *, by_step: int) -> float:
        return self.chance * max(self.early, by_step / 40) / (1 + abs(score))
