"""Cuts: the quantile of the scores at a rung that a trial must not be below."""

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
    """That a trial is below the cut of a rung.

    Attributes:
        rung: The lowest such rung.
        score: What the trial had there.
        cut: What it should have had.
        among: Scores at the rung.
        is_arriving: Whether the trial has just come there: its own score is not in the cut.
    """

    rung: int
    score: float
    cut: float
    among: int
    is_arriving: bool


class CutIndex:
    """The cut of each rung, and which paused trials are above every cut, kept up.

    A paused trial that is below a cut is not looked at again before that cut has changed, so that
    a question costs what has changed and not what waits.
    """

    def __init__(self, rungs: tuple[int, ...], *, max_steps: int, quantile: float) -> None:
        self.rungs = RungIndex((rungs,), lambda _: 0, lambda: RunningQuantile(quantile))
        self._climbs = self.rungs.climbs
        self._scores = self.rungs.brackets[0].scores
        self._lines = tuple(self.rungs.brackets[0].lines.items())
        self._judged = tuple(rung for rung in rungs if rung < max_steps)
        self._cuts = dict.fromkeys(rungs, -math.inf)
        """The cut of each rung; below every score while it has less than two."""
        self._values = self._cuts.values()
        self._newest = dict.fromkeys(rungs, (-1, -math.inf))
        """Who came to each rung last, and the cut before, which is the one without its score."""
        self._sure = dict.fromkeys(rungs, -math.inf)
        """Who is below this is below the cut of the rung, with and without its own score."""
        self._changed: set[int] = set()
        """Rungs whose cut is another one since the trials in `_below` were last looked at."""
        self._missed: dict[int, Shortfall] = {}
        """The cut that a paused trial was below when it was last looked at, by number."""
        self._above: dict[int, Trial] = {}
        """Interrupted trials by number that were above every cut, or were not looked at yet."""
        self._below: dict[int, list[tuple[float, int]]] = {rung: [] for rung in rungs}
        """Score and number of the other interrupted trials, by the rung whose cut they missed."""

    def shortfall(self, trial: Trial) -> Shortfall | None:
        """The first cut that the trial is below; None where it is above every cut."""
        number = trial.number
        climb = self._climbs[number]
        scores, arriving = climb.scores, climb.arriving
        if trial.decided_step is not None:
            arriving = self.rungs.crossed(trial)
        if not arriving and not any(map(lt, scores, self._values)):
            return None  # as is usual
        for rung, score in zip(self._judged, scores, strict=False):
            cut, is_arriving = self._cuts[rung], rung in arriving
            if is_arriving:
                newest, cut = self._newest[rung]
                if newest != number:
                    cut = self._cut_without(rung, score)
            if score < cut:
                return Shortfall(rung, score, cut, self._scores[rung].count, is_arriving)
        return None

    def waiting(self) -> Iterable[Trial]:
        """Of each rung, the top one first, the paused trials, best first, until one is below."""
        for rung, line in self._lines:
            if line.top >= self._sure[rung]:
                return self._first_of_lines()
        return ()  # as is usual

    def _first_of_lines(self) -> Iterator[Trial]:
        for rung, line in self._lines:
            if line.top < self._sure[rung]:
                continue
            for _, trial in line:
                if self._is_below(trial):
                    break
                yield trial

    def _is_below(self, trial: Trial) -> bool:
        """Whether a trial that waits is below a cut; a cut changes when somebody comes there."""
        missed = self._missed.get(trial.number)
        if missed is not None and missed.among == self._scores[missed.rung].count:
            return True
        missed = self.shortfall(trial)
        if missed is None:
            return False
        self._missed[trial.number] = missed
        return True

    def interrupted(self) -> Sequence[Trial]:
        """Trials that are paused between two rungs and are above every cut."""
        if not self._above and not self._changed:
            return ()  # as is usual
        for rung in self._changed:
            below, cut = self._below[rung], self._cuts[rung]
            while below and below[-1][0] >= cut:
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
        climb = self._climbs[number]
        if trial.step < climb.ahead:
            climb.arriving = ()
        else:
            for rung in self.rungs.arrive(trial, climb):
                self._newest[rung] = (number, self._cuts[rung])
                scores = self._scores[rung]
                if scores.count > 1:
                    self._cuts[rung] = scores.value
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

    def _cut_without(self, rung: int, score: float) -> float:
        scores = self._scores[rung]
        return scores.without(score) if scores.count > 2 else -math.inf

    def _forget(self, trial: Trial) -> None:
        self._above.pop(trial.number, None)
        missed = self._missed.pop(trial.number, None)
        if missed is not None and trial.number in self.rungs.interrupted:
            below = self._below[missed.rung]
            del below[bisect_left(below, (missed.score, trial.number))]
