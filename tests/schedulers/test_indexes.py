"""What schedulers keep up about a study: the same as looking at all of it anew."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import takewhile
from random import Random
from typing import NamedTuple

import pytest

from hpo_ops.core import Goal, Ranking, Scheduler, Study, TrialState
from hpo_ops.schedulers import AshaPromoting, AshaSpeculative, Halving, Hyperband, HyperSched, Pop
from hpo_ops.schedulers.rungs import crossed_rungs

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


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("eta", [2, 4])
def test_a_paused_trial_goes_on_when_it_is_above_every_cut(seed: int, eta: int) -> None:
    scheduler = AshaSpeculative(max_steps=40, eta=eta)
    study = study_after(())
    for what in happenings(seed):
        if what.kind == "decided":
            continue
        happen(study, what)
        group = scheduler.next(study, TRIALS, 0.0)
        resumed = {member.trial for member in group.members if member.trial is not None}
        assert resumed == above_every_cut(study, scheduler)


def above_every_cut(study: Study, scheduler: AshaSpeculative) -> set[int]:
    """Those that are paused between rungs, and of each rung the best ones, by looking at all."""
    found, lines = set(), defaultdict(list)
    for trial in study.in_state(TrialState.PAUSED).values():
        arriving = crossed_rungs(trial, scheduler.rungs)
        is_above = all(
            score >= cut(study, rung, scheduler.eta, score if rung in arriving else None)
            for rung in scheduler.rungs
            if rung < scheduler.max_steps and (score := trial.score_at(rung)) is not None
        )
        if arriving:
            score = trial.score_at(arriving[-1]) or 0.0
            lines[arriving[-1]].append((-score, trial.number, is_above))
        elif is_above:
            found.add(trial.number)
    for line in lines.values():
        found |= {number for _, number, _ in takewhile(lambda item: item[2], sorted(line))}
    return found


def cut(study: Study, rung: int, eta: int, without: float | None) -> float:
    ranking = Ranking()
    for trial in study.trials:
        if (score := trial.score_at(rung)) is not None:
            ranking.add(score)
    if without is not None:
        ranking.remove(without)
    return ranking.quantile(1 - 1 / eta) if len(ranking) > 1 else -math.inf


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", [None, 1.5])
@pytest.mark.parametrize("deadline", [None, 150.0, 420.0, 1e6])
def test_chances_kept_up_are_those_made_anew(
    seed: int, target: float | None, deadline: float | None
) -> None:
    pop = Pop(max_steps=40, boundary=4)
    goal = Goal(trials=TRIALS + 4, target=target, deadline_seconds=deadline)
    asked, seen = study_after((), goal), [*happenings(seed)]
    levels = [Level(random.random(), random.random()) for random in map(Random, range(len(seen)))]
    for count in range(1, len(seen) + 1):
        go_on(asked, seen[count - 1], levels[count - 1])
        group = pop.next(asked, TRIALS, float(count))
        if count % 8:
            continue
        fresh = study_after((), goal)
        for what, level in zip(seen[:count], levels, strict=False):
            go_on(fresh, what, level)
        assert group == pop.next(fresh, TRIALS, float(count))
        for ours, theirs in zip(asked.trials, fresh.trials, strict=True):
            if ours.observations:
                decision = pop.on_report(asked, ours, float(count))
                assert decision == pop.on_report(fresh, theirs, float(count))


def go_on(study: Study, what: Happening, level: Level) -> None:
    """A trial reports, ever faster, and may be forecast; starts, pauses, or ends for good."""
    trial = study.trials[what.trial]
    if trial.state.is_finished:
        return
    if what.kind == "report" and trial.state is TrialState.RUNNING:
        study.record(trial.number, trial.step + what.steps, what.value, 12.0 / (1 + trial.step))
        if level.early > 0.5:
            study.set_forecast(trial.number, level)
    elif what.kind == "start":
        study.start(trial.number)
    elif what.kind == "pause" and trial.observations:
        study.move(trial.number, TrialState.PAUSED)
    elif what.kind == "decided" and what.value > 1.3:
        study.move(trial.number, TrialState.PRUNED)


class Level(NamedTuple):
    """A forecast that rises to a chance at step 40, less for higher scores."""

    chance: float
    early: float

    def probability(self, score: float, *, by_step: int) -> float:
        return self.chance * max(self.early, by_step / 40) / (1 + abs(score))
