"""Cutoffs of rungs.

The cutoff of a rung is a quantile of the scores of trials at the rung; a trial below it is paused.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from operator import lt
from typing import NamedTuple

from hpo_ops.core import Trial, TrialState
from hpo_ops.core.score_ranking import RunningQuantile
from hpo_ops.core.trial_state import PAUSED
from hpo_ops.schedulers.rungs import RungIndex


class Shortfall(NamedTuple):
    """The lowest rung at which a trial's score is below the cutoff, with both scores.

    Attributes:
        rung: The rung.
        score: The trial's score at the rung.
        cutoff: The score below which trials are paused at the rung.
        trials: Number of trials that have reached the rung.
        is_arriving: Whether the trial has just reached the rung; then the cutoff is computed
            without the trial's own score.
    """

    rung: int
    score: float
    cutoff: float
    trials: int
    is_arriving: bool


class CutoffIndex:
    """Index of the cutoff of each rung, and of the paused trials at or above every cutoff.

    A paused trial that is below a cutoff is not checked again before that cutoff has changed, so
    that the cost of a query depends on the number of changes, not of paused trials.
    """

    def __init__(self, rungs: tuple[int, ...], *, max_steps: int, quantile: float) -> None:
        self.rungs = RungIndex((rungs,), lambda _: 0, lambda: RunningQuantile(quantile))
        self._progress = self.rungs.progress_of
        self._scores = self.rungs.brackets[0].scores
        self._queues = tuple(self.rungs.brackets[0].queues.items())
        self._judged = tuple(rung for rung in rungs if rung < max_steps)
        self._cutoffs = dict.fromkeys(rungs, -math.inf)
        """The cutoff of each rung; minus infinity while the rung has fewer than two scores."""
        self._values = self._cutoffs.values()
        self._newest = dict.fromkeys(rungs, (-1, -math.inf))
        """The trial that reached each rung last, and the cutoff of the scores before it."""
        self._sure = dict.fromkeys(rungs, -math.inf)
        """For each rung, a score below which a trial is certainly below the cutoff."""
        self._changed: set[int] = set()
        """Rungs whose cutoff has changed since the trials in `_below` were last checked."""
        self._missed: dict[int, Shortfall] = {}
        """The shortfall of each paused trial that was below a cutoff at the last check."""
        self._above: dict[int, Trial] = {}
        """Interrupted trials that are at or above every cutoff or not checked yet, by number."""
        self._below: dict[int, list[tuple[float, int]]] = {rung: [] for rung in rungs}
        """Score and number of interrupted trials below a cutoff, by the rung of the shortfall."""

    def shortfall(self, trial: Trial) -> Shortfall | None:
        """Returns the lowest rung at which a trial is below the cutoff; None if at no rung."""
        number = trial.number
        progress = self._progress[number]
        scores, arriving = progress.scores, progress.arriving
        if trial.decided_step is not None:
            arriving = self.rungs.crossed(trial)
        if not arriving and not any(map(lt, scores, self._values)):
            return None  # the usual case
        for rung, score in zip(self._judged, scores, strict=False):
            cutoff, is_arriving = self._cutoffs[rung], rung in arriving
            if is_arriving:
                newest, cutoff = self._newest[rung]
                if newest != number:
                    cutoff = self._cutoff_without(rung, score)
            if score < cutoff:
                return Shortfall(rung, score, cutoff, self._scores[rung].count, is_arriving)
        return None

    def waiting(self) -> Iterable[Trial]:
        """Returns the trials to resume: paused at a rung, and at or above every cutoff.

        The order is from the top rung down, at each rung the best score first. At each rung, the
        trials after the first trial that is below a cutoff are omitted.
        """
        for rung, queue in self._queues:
            if queue.top >= self._sure[rung]:
                return self._first_of_queues()
        return ()  # the usual case

    def _first_of_queues(self) -> Iterator[Trial]:
        for rung, queue in self._queues:
            if queue.top < self._sure[rung]:
                continue
            for _, trial in queue:
                if self._is_below(trial):
                    break
                yield trial

    def _is_below(self, trial: Trial) -> bool:
        """Checks whether a paused trial is below the cutoff of any rung.

        The result is reused until a score is added at that rung, which may change the cutoff.
        """
        missed = self._missed.get(trial.number)
        if missed is not None and missed.trials == self._scores[missed.rung].count:
            return True
        missed = self.shortfall(trial)
        if missed is None:
            return False
        self._missed[trial.number] = missed
        return True

    def interrupted(self) -> Sequence[Trial]:
        """Returns the trials interrupted between two rungs that are at or above every cutoff."""
        if not self._above and not self._changed:
            return ()  # the usual case
        for rung in self._changed:
            below, cutoff = self._below[rung], self._cutoffs[rung]
            while below and below[-1][0] >= cutoff:
                number = below.pop()[1]
                del self._missed[number]
                self._above[number] = self.rungs.interrupted[number]
        self._changed.clear()
        found = []
        for trial in tuple(self._above.values()):
            missed = self.shortfall(trial)
            if missed is None:
                found.append(trial)
            elif not missed.is_arriving:
                del self._above[trial.number]
                insort(self._below[missed.rung], (missed.score, trial.number))
                self._missed[trial.number] = missed
        return found

    def reported(self, trial: Trial, before: int) -> None:
        number = trial.number
        progress = self._progress[number]
        if trial.step < progress.ahead:
            progress.arriving = ()
        else:
            for rung in self.rungs.arrive(trial, progress):
                self._newest[rung] = (number, self._cutoffs[rung])
                scores = self._scores[rung]
                if scores.count > 1:
                    self._cutoffs[rung] = scores.value
                    if self._below[rung]:
                        self._changed.add(rung)
                if scores.count > 2 and rung in self._judged:
                    self._sure[rung] = scores.below
        if number in self._missed:
            self._forget(trial)
            if number in self.rungs.interrupted:
                self._above[number] = trial

    def moved(self, trial: Trial, before: TrialState) -> None:
        is_paused = trial.state is PAUSED
        if before is PAUSED:
            self._forget(trial)
        elif not is_paused:
            return
        self.rungs.moved(trial, before)
        if is_paused and trial.number in self.rungs.interrupted:
            self._above[trial.number] = trial

    def _cutoff_without(self, rung: int, score: float) -> float:
        scores = self._scores[rung]
        return scores.without(score) if scores.count > 2 else -math.inf

    def _forget(self, trial: Trial) -> None:
        self._above.pop(trial.number, None)
        missed = self._missed.pop(trial.number, None)
        if missed is not None and trial.number in self.rungs.interrupted:
            below = self._below[missed.rung]
            del below[bisect_left(below, (missed.score, trial.number))]
