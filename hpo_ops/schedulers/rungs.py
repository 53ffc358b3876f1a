"""Rungs: the steps at which successive halving looks at trials."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

from hpo_ops.core import Decision, Ranking, Study, Trial, TrialState
from hpo_ops.core.decisions import CONTINUE
from hpo_ops.core.trial_state import PAUSED


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


class Line:
    """Trials that are paused at a rung: the best first, of equals that with the least number.

    A heap: who leaves from behind the first stays in it, forgotten, until it would be the first.
    """

    __slots__ = ("_entries", "_heap", "top")

    def __init__(self) -> None:
        self.top = -math.inf
        """The score of the first; below every score where nobody waits."""
        self._heap: list[tuple[float, int]] = []
        """Scores, negated, and numbers."""
        self._entries: dict[int, tuple[tuple[float, int], Trial]] = {}

    def add(self, score: float, trial: Trial) -> None:
        entry = (-score, trial.number)
        self._entries[trial.number] = entry, trial
        heappush(self._heap, entry)
        if score > self.top:
            self.top = score

    def remove(self, number: int) -> None:
        """Takes a trial out that waits here."""
        del self._entries[number]
        heap = self._heap
        while heap and not self._waits(heap[0]):
            heappop(heap)
        self.top = -heap[0][0] if heap else -math.inf

    def __iter__(self) -> Iterator[tuple[float, Trial]]:
        """Scores and trials in order; nobody may come or go meanwhile."""
        heap = self._heap
        ahead = [(heap[0], 0)] if heap else []
        while ahead:
            entry, place = heappop(ahead)
            if self._waits(entry):
                yield -entry[0], self._entries[entry[1]][1]
            for child in (2 * place + 1, 2 * place + 2):
                if child < len(heap):
                    heappush(ahead, (heap[child], child))

    def _waits(self, entry: tuple[float, int]) -> bool:
        known = self._entries.get(entry[1])
        return known is not None and known[0] is entry


class Scores(Protocol):
    """What is kept of the scores at a rung."""

    def add(self, score: float) -> None: ...


AnyScores = TypeVar("AnyScores", bound=Scores)


class Bracket(Generic[AnyScores]):
    """Rungs, the scores at each, and who is paused there."""

    def __init__(self, rungs: tuple[int, ...], make_scores: Callable[[], AnyScores]) -> None:
        self.rungs = rungs
        self.scores = {rung: make_scores() for rung in rungs}
        """The scores that trials first had at or after each rung."""
        self.lines = {rung: Line() for rung in reversed(rungs)}
        """The trials that wait at each rung, the top one first."""


class Climb(Generic[AnyScores]):
    """How far up the rungs of its bracket a trial is."""

    __slots__ = ("ahead", "arriving", "bracket", "scores")

    def __init__(self, bracket: Bracket[AnyScores]) -> None:
        self.bracket = bracket
        self.ahead: float = bracket.rungs[0]
        """The first rung that it has not reached; endless after the last."""
        self.scores: list[float] = []
        """The scores that it first had at or after the rungs that it passed, in order."""
        self.arriving: tuple[int, ...] = ()
        """The rungs that its last report was the first to reach or pass."""


class Climbs(dict[int, Climb[AnyScores]]):
    """How far each trial is, by number; one that nobody has heard of is below its first rung."""

    def __init__(self, bracket_of: Callable[[int], Bracket[AnyScores]]) -> None:
        super().__init__()
        self._bracket_of = bracket_of

    def __missing__(self, number: int) -> Climb[AnyScores]:
        climb = self[number] = Climb(self._bracket_of(number))
        return climb


class RungIndex(Generic[AnyScores]):
    """Scores at each rung of each bracket, and who is paused where, kept up with the study.

    A trial whose last report reached a rung waits there; one that was interrupted between two
    rungs waits for a place only.
    """

    def __init__(
        self,
        brackets: tuple[tuple[int, ...], ...],
        bracket_of: Callable[[int], int],
        make_scores: Callable[[], AnyScores],
    ) -> None:
        made = [Bracket(rungs, make_scores) for rungs in brackets]
        self.brackets: Sequence[Bracket[AnyScores]] = made
        self.climbs: dict[int, Climb[AnyScores]] = Climbs(lambda number: made[bracket_of(number)])
        self.interrupted: dict[int, Trial] = {}
        """Trials that are paused between two rungs, by number."""
        self._waits: dict[int, Line] = {}

    def crossed(self, trial: Trial) -> tuple[int, ...]:
        """The rungs that the trial reached last: see ``crossed_rungs``."""
        if trial.decided_step is None:
            return self.climbs[trial.number].arriving
        return crossed_rungs(trial, self.climbs[trial.number].bracket.rungs)

    def reported(self, trial: Trial, before: int) -> None:
        climb = self.climbs[trial.number]
        if trial.step < climb.ahead:
            climb.arriving = ()
        else:
            self.arrive(trial, climb)

    def arrive(self, trial: Trial, climb: Climb[AnyScores]) -> tuple[int, ...]:
        """Takes in a report that reaches or passes rungs: those that it is the first to."""
        step, score, scores = trial.step, trial.observations[-1].score, climb.scores
        bracket = climb.bracket
        rungs = bracket.rungs
        reached = bisect_right(rungs, step)
        climb.arriving = arriving = rungs[len(scores) : reached]
        climb.ahead = rungs[reached] if reached < len(rungs) else math.inf
        for rung in arriving:
            bracket.scores[rung].add(score)
            scores.append(score)
        return arriving

    def moved(self, trial: Trial, before: TrialState) -> None:
        number = trial.number
        if before is PAUSED:
            self.interrupted.pop(number, None)
            if (line := self._waits.pop(number, None)) is not None:
                line.remove(number)
        if trial.state is PAUSED:
            climb = self.climbs[number]
            bracket, crossed = climb.bracket, climb.arriving
            if trial.decided_step is not None:
                crossed = crossed_rungs(trial, bracket.rungs)
            if not crossed:
                self.interrupted[number] = trial
                return
            rung, score = crossed[-1], climb.scores[-1]
            if crossed is not climb.arriving:
                score = climb.scores[bracket.rungs.index(rung)]
            self._waits[number] = line = bracket.lines[rung]
            line.add(score, trial)


def rung_index(study: Study, rungs: tuple[int, ...]) -> RungIndex[Ranking]:
    """The study's index of these rungs, all trials in one bracket."""
    return study.index(("rungs", rungs), lambda: RungIndex((rungs,), lambda _: 0, Ranking))
