"""Rungs: the steps at which successive halving compares trials."""

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
    """Returns the rungs r, r*eta, r*eta**2, ... up to R, with r = min_steps and R = max_steps.

    The rungs are computed with integers: a floating-point logarithm loses a rung for some
    (r, R, eta).

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
    """Returns the rungs that a trial reached or passed with its last report, lowest first.

    For a paused trial, the report on which the pause was decided is used instead: the training may
    have sent more reports before it received the decision.
    """
    seen, step = trial.observations, trial.step
    if trial.decided_step is not None:
        seen = seen[: bisect_right(seen, trial.decided_step, key=lambda item: item.step)]
        step = seen[-1].step if seen else 0
    if not seen:
        return ()
    before = seen[-2].step if len(seen) > 1 else 0
    if step == before + 1:  # the usual case
        return (step,) if step in rungs else ()
    return rungs[bisect_right(rungs, before) : bisect_right(rungs, step)]


def next_rung(step: int, rungs: tuple[int, ...], max_steps: int) -> int:
    """Returns the first rung after a step, or ``max_steps`` after the last rung."""
    return next((rung for rung in rungs if rung > step), max_steps)


@lru_cache(maxsize=1024)
def no_rung(step: int) -> Decision:
    """Returns the decision to continue a trial whose report at ``step`` reaches no rung.

    The decision is cached, since most reports reach no rung.
    """
    return Decision(CONTINUE, f"step {step} is no rung")


@lru_cache(maxsize=1024)
def ordinal(number: int) -> str:
    """Returns a number as an English ordinal.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    suffix = "th" if number % 100 in (11, 12, 13) else _SUFFIXES.get(number % 10, "th")
    return f"{number}{suffix}"


_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


def rank_reason(rank: int, count: int, *, rung: int | str, best: int) -> str:
    """Returns the reason of a decision at a rung: the trial's rank, and how many trials continue.

    >>> rank_reason(4, 9, rung=3, best=3)
    'ranked 4th of 9 trials at rung 3; the best 3 continue'
    """
    return f"ranked {ordinal(rank)} of {count} trials at rung {rung}; the best {best} continue"


class PausedQueue:
    """Priority queue of the trials that are paused at a rung, the best score first.

    Of equal scores the trial with the lowest number comes first. A heap with lazy deletion: a
    removed trial's entry stays in the heap until it comes to the top.
    """

    __slots__ = ("_entries", "_heap", "top")

    def __init__(self) -> None:
        self.top = -math.inf
        """The best score in the queue; minus infinity if the queue is empty."""
        self._heap: list[tuple[float, int]] = []
        """Negated scores and trial numbers, removed trials included."""
        self._entries: dict[int, tuple[tuple[float, int], Trial]] = {}

    def add(self, score: float, trial: Trial) -> None:
        entry = (-score, trial.number)
        self._entries[trial.number] = entry, trial
        heappush(self._heap, entry)
        if score > self.top:
            self.top = score

    def remove(self, number: int) -> None:
        """Removes a trial, which must be in the queue."""
        del self._entries[number]
        heap = self._heap
        while heap and not self._is_waiting(heap[0]):
            heappop(heap)
        self.top = -heap[0][0] if heap else -math.inf

    def __iter__(self) -> Iterator[tuple[float, Trial]]:
        """Iterates over (score, trial), best first; the queue must not change meanwhile."""
        heap = self._heap
        ahead = [(heap[0], 0)] if heap else []
        while ahead:
            entry, position = heappop(ahead)
            if self._is_waiting(entry):
                yield -entry[0], self._entries[entry[1]][1]
            for child in (2 * position + 1, 2 * position + 2):
                if child < len(heap):
                    heappush(ahead, (heap[child], child))

    def _is_waiting(self, entry: tuple[float, int]) -> bool:
        known = self._entries.get(entry[1])
        return known is not None and known[0] is entry


class Scores(Protocol):
    """A collection of the scores at a rung, such as a `Ranking` or a `RunningQuantile`."""

    def add(self, score: float) -> None: ...


AnyScores = TypeVar("AnyScores", bound=Scores)


class Bracket(Generic[AnyScores]):
    """The rungs of a bracket, with the scores and the paused trials at each rung."""

    def __init__(self, rungs: tuple[int, ...], make_scores: Callable[[], AnyScores]) -> None:
        self.rungs = rungs
        self.scores = {rung: make_scores() for rung in rungs}
        """For each rung, the scores that trials first reported at or after the rung."""
        self.queues = {rung: PausedQueue() for rung in reversed(rungs)}
        """The trials that are paused at each rung, the top rung first."""


class RungProgress(Generic[AnyScores]):
    """The progress of a trial through the rungs of its bracket."""

    __slots__ = ("ahead", "arriving", "bracket", "scores")

    def __init__(self, bracket: Bracket[AnyScores]) -> None:
        self.bracket = bracket
        self.ahead: float = bracket.rungs[0]
        """The first rung that the trial has not reached; infinity after the last rung."""
        self.scores: list[float] = []
        """For each rung reached, the score that the trial first reported at or after the rung."""
        self.arriving: tuple[int, ...] = ()
        """The rungs that the trial reached or passed with its last report."""


class ProgressByTrial(dict[int, RungProgress[AnyScores]]):
    """Progress through the rungs by trial number; a missing trial is added as below all rungs."""

    def __init__(self, bracket_of: Callable[[int], Bracket[AnyScores]]) -> None:
        super().__init__()
        self._bracket_of = bracket_of

    def __missing__(self, number: int) -> RungProgress[AnyScores]:
        progress = self[number] = RungProgress(self._bracket_of(number))
        return progress


class RungIndex(Generic[AnyScores]):
    """Index of the scores and the paused trials at each rung of each bracket.

    A paused trial whose last report reached a rung is in that rung's queue. A paused trial that
    was interrupted between two rungs is in ``interrupted``: it may resume on any free slot.
    """

    def __init__(
        self,
        brackets: tuple[tuple[int, ...], ...],
        bracket_of: Callable[[int], int],
        make_scores: Callable[[], AnyScores],
    ) -> None:
        made = [Bracket(rungs, make_scores) for rungs in brackets]
        self.brackets: Sequence[Bracket[AnyScores]] = made
        self.progress_of: dict[int, RungProgress[AnyScores]] = ProgressByTrial(
            lambda number: made[bracket_of(number)]
        )
        self.interrupted: dict[int, Trial] = {}
        """Trials that are paused between two rungs, by number."""
        self._queue_of: dict[int, PausedQueue] = {}

    def crossed(self, trial: Trial) -> tuple[int, ...]:
        """Returns the rungs that a trial reached with its last report; see ``crossed_rungs``."""
        if trial.decided_step is None:
            return self.progress_of[trial.number].arriving
        return crossed_rungs(trial, self.progress_of[trial.number].bracket.rungs)

    def reported(self, trial: Trial, before: int) -> None:
        progress = self.progress_of[trial.number]
        if trial.step < progress.ahead:
            progress.arriving = ()
        else:
            self.arrive(trial, progress)

    def arrive(self, trial: Trial, progress: RungProgress[AnyScores]) -> tuple[int, ...]:
        """Adds the score of a trial's last report to the rungs it reaches; returns these rungs."""
        step, score, scores = trial.step, trial.observations[-1].score, progress.scores
        bracket = progress.bracket
        rungs = bracket.rungs
        reached = bisect_right(rungs, step)
        progress.arriving = arriving = rungs[len(scores) : reached]
        progress.ahead = rungs[reached] if reached < len(rungs) else math.inf
        for rung in arriving:
            bracket.scores[rung].add(score)
            scores.append(score)
        return arriving

    def moved(self, trial: Trial, before: TrialState) -> None:
        number = trial.number
        if before is PAUSED:
            self.interrupted.pop(number, None)
            if (queue := self._queue_of.pop(number, None)) is not None:
                queue.remove(number)
        if trial.state is PAUSED:
            progress = self.progress_of[number]
            bracket, crossed = progress.bracket, progress.arriving
            if trial.decided_step is not None:
                crossed = crossed_rungs(trial, bracket.rungs)
            if not crossed:
                self.interrupted[number] = trial
                return
            rung, score = crossed[-1], progress.scores[-1]
            if crossed is not progress.arriving:
                score = progress.scores[bracket.rungs.index(rung)]
            self._queue_of[number] = queue = bracket.queues[rung]
            queue.add(score, trial)


def rung_index(study: Study, rungs: tuple[int, ...]) -> RungIndex[Ranking]:
    """Returns the study's `RungIndex` for the given rungs, with all trials in one bracket."""
    return study.index(("rungs", rungs), lambda: RungIndex((rungs,), lambda _: 0, Ranking))
