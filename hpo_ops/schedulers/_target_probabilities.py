"""Index of each active (running or paused) trial's probability to reach the study's target."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from hpo_ops.core import Forecast, Study, Trial, TrialState
from hpo_ops.core.trial_state import PAUSED, RUNNING

GRID = 8
"""Number of future steps at which a forecast is evaluated."""


def probability_to_reach(forecast: Forecast, score: float, after: int, last: int) -> float:
    """Returns the highest probability, at any step in a range, that a trial has a score or more.

    The range is after ``after`` and up to ``last``, of which at most ``GRID`` steps are evaluated;
    the result is 0 if the range is empty. The maximum equals POP's confidence p, which sums the
    increases of P(m), the probability at step m.
    """
    if last <= after:
        return 0.0
    steps = {after + math.ceil((last - after) * (i + 1) / GRID) for i in range(GRID)}
    return max(forecast.probability(score, by_step=step) for step in steps)


class ProbabilityIndex:
    """Sorted index of the probabilities of active trials to reach the study's target.

    Active trials are running or paused; trials without a forecast are not in the index.

    `catch_up` computes a probability again only if the trial has a new forecast, has passed a
    boundary, has become active or is running out of time, or if the target has changed. The cost
    grows with the number of changes, not with the number of paused trials.

    Args:
        boundary: Steps between two forecasts.
    """

    def __init__(self, boundary: int) -> None:
        self._boundary = boundary
        self._probabilities: dict[int, float] = {}
        self._ranked: list[tuple[float, int]] = []
        """Probability and negated trial number in ascending order, so that the best is last."""
        self._changed: dict[int, Trial] = {}
        self._processed = 0
        """Number of entries of ``study.forecast_log`` that have been processed."""
        self._target = -math.inf
        self._short: dict[int, Trial] = {}
        """Trials that had no time left for all of their steps at the last `catch_up`."""

    def of(self, number: int) -> float:
        """Returns a trial's probability to reach the target, or 0 if it is not in the index."""
        return self._probabilities.get(number, 0.0)

    def from_best(self) -> Iterator[tuple[float, int]]:
        """Iterates over pairs of probability and trial number, the highest probability first."""
        return ((probability, -negated) for probability, negated in reversed(self._ranked))

    def catch_up(
        self,
        study: Study,
        target: float,
        probability_of: Callable[[Trial], float],
        is_short: Callable[[Trial], bool] | None = None,
    ) -> ProbabilityIndex:
        """Updates the probabilities that may have changed since the last call; returns ``self``.

        Args:
            study: The study to which the index belongs.
            target: The score to reach.
            probability_of: Computes the probability of a trial that has a forecast.
            is_short: Checks whether the deadline leaves a trial no time for all of its steps, so
                that its probability changes with time; None if there is no deadline.
        """
        changed = self._changed
        for number in study.forecast_log[self._processed :]:
            changed[number] = study.trials[number]
        self._processed = len(study.forecast_log)
        if is_short is not None:
            short = {n: study.trials[n] for n in self._probabilities if is_short(study.trials[n])}
            changed.update(self._short | short)
            self._short = short
        if target != self._target:
            self._target = target
            for state in (RUNNING, PAUSED):
                changed.update(study.in_state(state))
        for number, trial in changed.items():
            self._forget(number)
            if trial.forecast is not None and _is_active(trial.state):
                self._probabilities[number] = probability = probability_of(trial)
                insort(self._ranked, (probability, -number))
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
        probability = self._probabilities.pop(number, None)
        if probability is not None:
            del self._ranked[bisect_left(self._ranked, (probability, -number))]


def _is_active(state: TrialState) -> bool:
    return state is RUNNING or state is PAUSED
