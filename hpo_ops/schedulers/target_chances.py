"""Chances: how likely each active trial is to reach the target, kept up with the study."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from hpo_ops.core import Forecast, Study, Trial, TrialState
from hpo_ops.core.trial_state import PAUSED, RUNNING

GRID = 8
"""Steps at which a chance is looked at on the way to the last one."""


def chance_to_reach(forecast: Forecast, score: float, after: int, last: int) -> float:
    """The greatest predicted chance of a score on the way to the last step; 0 with no step left.

    The confidence p of POP is the sum of the growth of P(m), that is the running maximum of P.
    It is looked at on a few steps, the last included.
    """
    if last <= after:
        return 0.0
    steps = {after + math.ceil((last - after) * (i + 1) / GRID) for i in range(GRID)}
    return max(forecast.probability(score, by_step=step) for step in steps)


class ChanceIndex:
    """The chance of each trial that runs or is paused and has a forecast, and their order.

    A chance is made when somebody asks and the trial has a new forecast, has passed a boundary,
    has become active or runs out of time, or the target is another one: a question costs what has
    changed, not what waits.

    Args:
        boundary: Steps between two forecasts.
    """

    def __init__(self, boundary: int) -> None:
        self._boundary = boundary
        self._chances: dict[int, float] = {}
        self._ranked: list[tuple[float, int]] = []
        """Chances, and numbers, negated: the last is the greatest, of equals the first trial."""
        self._changed: dict[int, Trial] = {}
        self._heard = 0
        """Forecasts of the study that were looked at."""
        self._target = -math.inf
        self._short: dict[int, Trial] = {}
        """Trials that had no time for all of their steps when somebody last asked."""

    def of(self, number: int) -> float:
        """The chance of a trial; 0 without one."""
        return self._chances.get(number, 0.0)

    def from_best(self) -> Iterator[tuple[float, int]]:
        """Chances and the numbers of their trials, the greatest first."""
        return ((chance, -turn) for chance, turn in reversed(self._ranked))

    def catch_up(
        self,
        study: Study,
        target: float,
        chance_of: Callable[[Trial], float],
        is_short: Callable[[Trial], bool] | None = None,
    ) -> ChanceIndex:
        """Makes the chances that have changed.

        Args:
            study: The study that this is an index of.
            target: What is to be reached.
            chance_of: The chance of a trial that has a forecast.
            is_short: Whether a trial has no time for all of its steps, so that its chance changes
                with the time; None where there is no deadline.
        """
        changed = self._changed
        for number in study.new_forecasts[self._heard :]:
            changed[number] = study.trials[number]
        self._heard = len(study.new_forecasts)
        if is_short is not None:
            short = {n: study.trials[n] for n in self._chances if is_short(study.trials[n])}
            changed.update(self._short | short)
            self._short = short
        if target != self._target:
            self._target = target
            for state in (RUNNING, PAUSED):
                changed.update(study.in_state(state))
        for number, trial in changed.items():
            self._forget(number)
            if trial.forecast is not None and _is_active(trial.state):
                self._chances[number] = chance = chance_of(trial)
                insort(self._ranked, (chance, -number))
                if is_short is not None and is_short(trial):
                    self._short[number] = trial
        changed.clear()
        return self

    def reported(self, trial: Trial, before: int) -> None:
        if trial.forecast is not None and trial.step // self._boundary > before // self._boundary:
            self._changed[trial.number] = trial

    def moved(self, trial: Trial, before: TrialState) -> None:
        if _is_active(trial.state) is not _is_active(before):
            self._changed[trial.number] = trial

    def _forget(self, number: int) -> None:
        chance = self._chances.pop(number, None)
        if chance is not None:
            del self._ranked[bisect_left(self._ranked, (chance, -number))]


def _is_active(state: TrialState) -> bool:
    return state is RUNNING or state is PAUSED
