"""Rungs: the steps at which successive halving looks at trials."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

from hpo_ops.core import Decision, Ranking, Study, Trial, TrialState
from hpo_ops.core.decision import CONTINUE
from hpo_ops.core.trial import PAUSED


@cache
def rung_steps(min_steps: int, max_steps: int, eta: int) -> tuple[int, ...]:
    """The steps r, r*eta, r*eta**2, ... up to R.

    Counted with integers: a floating-point logarithm loses a rung for some (r, R, eta).

    >>> rung_steps(1, 81, 3)
    (1, 3, 9, 27, 81)
    """
    steps = []
    step = min_steps
    while step <= max_steps:
        steps.append(step)
        step *= eta
    return tuple(steps)


def crossed_rungs(trial: Trial, rungs: tuple[int, ...]) -> tuple[int, ...]:
    """The rungs that the trial's last report was the first to reach or pass, lowest first.

    For a paused trial it is the report on which it was decided: it may have trained a little
    further before it heard of that.
    """
    seen, step = trial.observations, trial.step
    if trial.decided_step is not None:
        seen = seen[: bisect_right(seen, trial.decided_step, key=lambda item: item.step)]
        step = seen[-1].step if seen else 0
    if not seen:
        return ()
    before = seen[-2].step if len(seen) > 1 else 0
    if step == before + 1:  # as is usual
        return (step,) if step in rungs else ()
    return rungs[bisect_right(rungs, before) : bisect_right(rungs, step)]


def next_rung(step: int, rungs: tuple[int, ...], max_steps: int) -> int:
    """The first rung above a step, or the last step of all."""
    return next((rung for rung in rungs if rung > step), max_steps)


@lru_cache(maxsize=1024)
def no_rung(step: int) -> Decision:
    """The answer to a report that reaches no rung; most are like that, so it is made once."""
    return Decision(CONTINUE, f"no rung at step {step}")


class Waiting(NamedTuple):
    """A trial that is paused at a rung; the greatest goes on first."""

    score: float
    turn: int
    """Its number, negated."""
    trial: Trial


@dataclass(slots=True)
class Climb:
    """How far up its rungs a trial is.

    Attributes:
        ahead: The first rung that it has not reached; endless after the last.
        scores: The scores that it first had at or after the rungs that it passed, in order.
        arriving: The rungs that its last report was the first to reach or pass.
    """

    ahead: float = 0.0
    scores: list[float] = field(default_factory=list)
    arriving: tuple[int, ...] = ()


class RungIndex:
    """Scores at each rung of each bracket, and who is paused where, kept up with the study.

    A trial whose last report reached a rung waits there; one that was interrupted between two
    rungs waits for a place only.
    """

    def __init__(
        self, brackets: tuple[tuple[int, ...], ...], bracket_of: Callable[[int], int]
    ) -> None:
        self._brackets = brackets
        self._bracket_of = bracket_of
        self._rankings = [{rung: Ranking() for rung in rungs} for rungs in brackets]
        self.climbs: dict[int, Climb] = defaultdict(Climb)
        """How far each trial is, by number."""
        self._paused: list[dict[int, list[Waiting]]] = [
            {rung: [] for rung in reversed(rungs)} for rungs in brackets
        ]
        self.interrupted: dict[int, Trial] = {}
        """Trials that are paused between two rungs, by number."""
        self._waits: dict[int, tuple[int, Waiting]] = {}

    def rankings(self, bracket: int = 0) -> Mapping[int, Ranking]:
        """The scores that trials of a bracket first had at or after each rung."""
        return self._rankings[bracket]

    def crossed(self, trial: Trial) -> tuple[int, ...]:
        """The rungs that the trial reached last: see ``crossed_rungs``."""
        if trial.decided_step is None:
            return self.climbs[trial.number].arriving
        return crossed_rungs(trial, self._brackets[self._bracket_of(trial.number)])

    def paused(self, bracket: int = 0) -> Mapping[int, Sequence[Waiting]]:
        """The trials that wait at each rung, the top one first; the best comes last."""
        return self._paused[bracket]

    def reported(self, trial: Trial, before: int) -> None:
        climb = self.climbs[trial.number]
        if trial.step < climb.ahead:
            climb.arriving = ()
        else:
            self.arrive(trial, climb)

    def arrive(self, trial: Trial, climb: Climb) -> tuple[int, ...]:
        """Takes in a report that reaches or passes rungs: those that it is the first to."""
        step, score = trial.step, trial.observations[-1].score
        bracket = self._bracket_of(trial.number)
        rungs, rankings, scores = self._brackets[bracket], self._rankings[bracket], climb.scores
        reached = bisect_right(rungs, step)
        climb.arriving = arriving = rungs[len(scores) : reached]
        climb.ahead = rungs[reached] if reached < len(rungs) else math.inf
        for rung in arriving:
            rankings[rung].add(score)
            scores.append(score)
        return arriving

    def moved(self, trial: Trial, before: TrialState) -> None:
        if before is PAUSED:
            self._forget(trial)
        if trial.state is PAUSED:
            crossed, number = self.crossed(trial), trial.number
            if not crossed:
                self.interrupted[number] = trial
                return
            rung, bracket, climb = crossed[-1], self._bracket_of(number), self.climbs[number]
            if crossed is climb.arriving:  # as is usual
                score = climb.scores[-1]
            else:
                score = climb.scores[self._brackets[bracket].index(rung)]
            entry = Waiting(score, -number, trial)
            insort(self._paused[bracket][rung], entry)
            self._waits[number] = (rung, entry)

    def _forget(self, trial: Trial) -> None:
        self.interrupted.pop(trial.number, None)
        if trial.number in self._waits:
            rung, entry = self._waits.pop(trial.number)
            waiting = self._paused[self._bracket_of(trial.number)][rung]
            del waiting[bisect_left(waiting, entry)]


def rung_index(study: Study, rungs: tuple[int, ...]) -> RungIndex:
    """The study's index of these rungs, all trials in one bracket."""
    return study.index(("rungs", rungs), lambda: RungIndex((rungs,), lambda _: 0))
