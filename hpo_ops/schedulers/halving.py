"""Successive halving with a barrier: a rung is judged when all of it have arrived."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hpo_ops.core import Decision, Member, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.decisions import PAUSE
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.core.trial_state import PAUSED, RUNNING
from hpo_ops.schedulers.rungs import next_rung, no_rung, rung_steps
from hpo_ops.schedulers.slot_filling import by_priority, resume_reason


class BarrierIndex:
    """Who is paused at which step, best first, and who runs from where, kept up."""

    def __init__(self) -> None:
        self.at_step: dict[int, list[tuple[float, int]]] = {}
        """Negated score and number of each trial that is paused at a step."""
        self.on_the_way: Counter[int] = Counter()
        """How many trials run a segment that started at a step."""
        self._places: dict[int, tuple[int, tuple[float, int]]] = {}
        self._starts: dict[int, int] = {}

    def reported(self, trial: Trial, before: int) -> None:
        if trial.number in self._places:
            self._forget(trial)
            self._add(trial)

    def moved(self, trial: Trial, before: TrialState) -> None:
        number, state = trial.number, trial.state
        if number in self._places:
            self._forget(trial)
        elif number in self._starts:
            self._leave(self._starts.pop(number))
        if state is PAUSED:
            self._add(trial)
        elif state is RUNNING:
            self._starts[number] = start = trial.step_at_start
            self.on_the_way[start] += 1

    def _leave(self, start: int) -> None:
        self.on_the_way[start] -= 1
        if not self.on_the_way[start]:
            del self.on_the_way[start]

    def _add(self, trial: Trial) -> None:
        entry = (-(trial.score or 0.0), trial.number)
        insort(self.at_step.setdefault(trial.step, []), entry)
        self._places[trial.number] = (trial.step, entry)

    def _forget(self, trial: Trial) -> None:
        step, entry = self._places.pop(trial.number)
        here = self.at_step[step]
        del here[bisect_left(here, entry)]
        if not here:
            del self.at_step[step]


@dataclass(frozen=True, kw_only=True)
class Halving:
    """Trains all trials to a rung, then the best 1/eta of them to the next, and so on.

    Synchronous successive halving, Jamieson and Talwalkar, "Non-stochastic Best Arm
    Identification and Hyperparameter Optimization", AISTATS 2016
    (https://arxiv.org/abs/1502.07943). Each rung is one trial group, which Fluid shares resources
    among.

    Departures: the bracket is the whole study, and its size need not be a power of eta:
    max(1, floor(n / eta)) of the n that reach a rung go on.

    Example:
        >>> Halving(max_steps=27).rungs
        (1, 3, 9, 27)

    Attributes:
        min_steps: Steps before the first judgement (r).
        max_steps: Steps of a whole trial (R).
        eta: One of so many goes on from each rung (η).
    """

    pauses: ClassVar[bool] = True
    copies: ClassVar[bool] = False
    forecast_every: ClassVar[int | None] = None

    min_steps: int = 1
    max_steps: int
    eta: int = 3

    def __post_init__(self) -> None:
        check_at_least("min_steps", self.min_steps, 1)
        check_at_least("max_steps", self.max_steps, self.min_steps)
        check_at_least("eta", self.eta, 2)

    @cached_property
    def rungs(self) -> tuple[int, ...]:
        """The steps at which trials are judged; at the last one they are whole."""
        return rung_steps(self.min_steps, self.max_steps, self.eta)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if free <= 0:
            return TrialGroup((), "no place is free")
        at_step = study.index("barriers", BarrierIndex).at_step
        ready = [
            study.trials[number]
            for step, here in at_step.items()
            if step not in self.rungs
            for _, number in here
        ]
        ready += study.in_state(TrialState.WAITING).values()
        if study.unstarted or ready:
            return self._start(study, sorted(ready, key=by_priority), free)
        if not at_step:
            return TrialGroup((), f"all {study.goal.trials} trials have been started")
        return self._promote(study, min(at_step), free)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.step >= self.max_steps or trial.step not in self.rungs:
            return no_rung(trial.step)
        return Decision(PAUSE, f"waits for the others at step {trial.step}")

    def _start(self, study: Study, ready: Sequence[Trial], free: int) -> TrialGroup:
        members = [self._member(trial, resume_reason(trial)) for trial in ready[:free]]
        for i in range(min(free - len(members), study.unstarted)):
            number = len(study.trials) + i
            members.append(Member(f"trial {number} is new, first rung", None, self.rungs[0]))
        return TrialGroup(tuple(members), f"{len(members)} of rung {self.rungs[0]}")

    def _promote(self, study: Study, step: int, free: int) -> TrialGroup:
        """Places for the best of those that wait at a step, the lowest at which anyone does."""
        running = len(study.in_state(TrialState.RUNNING))
        index = study.index("barriers", BarrierIndex)
        lowest = self._reached(step)
        if any(self._reached(start) < lowest for start in index.on_the_way):
            return TrialGroup((), f"{running} trials are still on their way to a rung")
        best = index.at_step[step]
        count = len(best)
        unfinished = len(study.in_state(TrialState.PAUSED)) + running
        if count == unfinished:  # else the barrier was passed, and these wait for a place only
            count = max(1, len(study.ranking_at(step)) // self.eta)
        members = [
            self._member(study.trials[number], f"trial {number} is among the best at step {step}")
            for _, number in best[: min(free, count)]
        ]
        return TrialGroup(
            tuple(members),
            f"the best {min(count, len(best))} at step {step} go on",
            tuple(number for _, number in best[count:]),
        )

    def _member(self, trial: Trial, reason: str) -> Member:
        until = next_rung(trial.step, self.rungs, self.max_steps)
        group = self._reached(trial.step)
        return Member(reason, trial.number, until, group)

    def _reached(self, step: int) -> int:
        """How many rungs are at a step or below."""
        return bisect_right(self.rungs, step)
