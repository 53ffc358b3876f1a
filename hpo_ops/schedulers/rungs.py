"""Rungs: the steps at which successive halving looks at trials."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from hpo_ops.core import Action, Decision, Ranking, Study, Trial, TrialState


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
    seen = trial.observations
    if trial.decided_step is not None:
        seen = seen[: bisect_right(seen, trial.decided_step, key=lambda item: item.step)]
    if not seen:
        return ()
    before = bisect_right(rungs, seen[-2].step) if len(seen) > 1 else 0
    return rungs[before : bisect_right(rungs, seen[-1].step)]


def next_rung(step: int, rungs: tuple[int, ...], max_steps: int) -> int:
    """The first rung above a step, or the last step of all."""
    return next((rung for rung in rungs if rung > step), max_steps)


@lru_cache(maxsize=1024)
def no_rung(step: int) -> Decision:
    """The answer to a report that reaches no rung; most are like that, so it is made once."""
    return Decision(Action.CONTINUE, f"no rung at step {step}")


class Waiting(NamedTuple):
    """A trial that is paused at a rung; the greatest is first in line."""

    score: float
    turn: int
    """Its number, negated."""
    trial: Trial


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
        self._scores: dict[int, list[float]] = defaultdict(list)
        self._paused: list[dict[int, list[Waiting]]] = [
            {rung: [] for rung in rungs} for rungs in brackets
        ]
        self.interrupted: dict[int, Trial] = {}
        """Trials that are paused between two rungs, by number."""
        self._waits: dict[int, tuple[int, Waiting]] = {}

    def ranking(self, rung: int, bracket: int = 0) -> Ranking:
        """The scores that trials of a bracket first had at or after a rung."""
        return self._rankings[bracket][rung]

    def scores(self, number: int) -> Sequence[float]:
        """The scores that a trial first had at or after the rungs that it passed, in order."""
        return self._scores[number]

    def paused_at(self, rung: int, bracket: int = 0) -> Iterator[Waiting]:
        """The trials that wait at a rung, best first, then by number."""
        return reversed(self._paused[bracket][rung])

    def reported(self, trial: Trial, before: int) -> None:
        bracket = self._bracket_of(trial.number)
        rungs = self._brackets[bracket]
        last = trial.observations[-1]
        scores = self._scores[trial.number]
        while len(scores) < len(rungs) and rungs[len(scores)] <= last.step:
            self._rankings[bracket][rungs[len(scores)]].add(last.score)
            scores.append(last.score)

    def moved(self, trial: Trial, before: TrialState) -> None:
        if before is TrialState.PAUSED:
            self._forget(trial)
        if trial.state is TrialState.PAUSED:
            bracket = self._bracket_of(trial.number)
            crossed = crossed_rungs(trial, self._brackets[bracket])
            if not crossed:
                self.interrupted[trial.number] = trial
                return
            score = trial.score_at(crossed[-1])
            entry = Waiting(
                trial.observations[-1].score if score is None else score, -trial.number, trial
            )
            insort(self._paused[bracket][crossed[-1]], entry)
            self._waits[trial.number] = (crossed[-1], entry)

    def _forget(self, trial: Trial) -> None:
        self.interrupted.pop(trial.number, None)
        if trial.number in self._waits:
            rung, entry = self._waits.pop(trial.number)
            waiting = self._paused[self._bracket_of(trial.number)][rung]
            del waiting[bisect_left(waiting, entry)]


def rung_index(study: Study, rungs: tuple[int, ...]) -> RungIndex:
    """The study's index of these rungs, all trials in one bracket."""
    return study.index(("rungs", rungs), lambda: RungIndex((rungs,), lambda _: 0))
