"""The probability to reach a target."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from hpo_ops.core import Goal, Study, TrialState
from hpo_ops.schedulers import Pop
from hpo_ops.schedulers._target_probabilities import probability_to_reach
from tests.schedulers.random_events import TRIALS, Event, random_events, study_after


def test_a_probability_is_the_highest_at_any_future_step() -> None:
    class Hump:
        def probability(self, score: float, *, by_step: int) -> float:
            return 0.9 if 40 <= by_step < 60 else 0.1

    assert probability_to_reach(Hump(), 0.5, 10, 90) == 0.9
    assert probability_to_reach(Hump(), 0.5, 10, 10) == 0.0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", [None, 1.5])
@pytest.mark.parametrize("deadline", [None, 150.0, 420.0, 1e6])
def test_updated_probabilities_are_those_computed_anew(
    seed: int, target: float | None, deadline: float | None
) -> None:
    pop = Pop(max_steps=40, boundary=4)
    goal = Goal(trials=TRIALS + 4, target=target, deadline_seconds=deadline)
    asked, seen = study_after((), goal), [*random_events(seed)]
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


def go_on(study: Study, what: Event, level: Level) -> None:
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
