"""HyperSched's admission rule: a trial starts only if it can catch up before the deadline.

To catch up means to train as far as the furthest trial, which has the longest training time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hpo_ops.core import Study, Trial, TrialState
from hpo_ops.core.score_ranking import RunningQuantile
from hpo_ops.core.trial_state import RUNNING, Observation


def admission_bound(
    *, furthest_seconds: float, eta: int, step_seconds: float, max_steps: int
) -> float:
    """Returns the seconds that a new trial needs to catch up with the furthest trial.

    The furthest trial is the trial with the longest training time. The bound is
    min(furthest trial's time * eta, time of a step * R), with R = ``max_steps``.

    >>> admission_bound(furthest_seconds=300, eta=4, step_seconds=20, max_steps=100)
    1200
    """
    return min(furthest_seconds * eta, step_seconds * max_steps)


def should_start(seconds_left: float, bound: float) -> bool:
    """Checks whether more time is left until the deadline than a new trial needs."""
    return seconds_left > bound


class PaceIndex:
    """Index of the longest training time of any trial, and of the median time of a step."""

    def __init__(self) -> None:
        self.furthest_seconds = 0.0
        self._seconds = RunningQuantile(0.5)
        self._new: list[tuple[Observation, int]] = []
        """Reports since the last update of the median, each with the trial's previous step."""

    @property
    def step_seconds(self) -> float | None:
        """Median time of a step on one unit (such as a GPU); None before the first report."""
        for last, before in self._new:
            steps = last.step - before if before > 0 else last.step
            if steps > 0:
                self._seconds.add(last.unit_seconds / steps)
        self._new.clear()
        return self._seconds.value if self._seconds.count else None

    def reported(self, trial: Trial, before: int) -> None:
        self._new.append((trial.observations[-1], before))
        if trial.seconds > self.furthest_seconds:
            self.furthest_seconds = trial.seconds

    def moved(self, trial: Trial, before: TrialState) -> None:
        """Does nothing: the index does not depend on the states of trials."""


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Decides whether a new trial can catch up with the furthest trial before the deadline.

    The furthest trial is the trial with the longest training time.

    Attributes:
        eta: Reduction factor of ASHA (η).
        min_steps: Steps to the first rung (r).
        max_steps: Steps of a full-length trial (R).
        readmit: Whether the furthest trial is chosen among the running trials; otherwise it is
            chosen among all trials.
    """

    eta: int
    min_steps: int
    max_steps: int
    readmit: bool

    def has_time(self, study: Study, seconds_left: float) -> bool:
        """Checks whether a new trial can catch up with the furthest trial before the deadline."""
        furthest = study.index("pace", PaceIndex).furthest_seconds
        return seconds_left > furthest * self.eta or should_start(seconds_left, self.bound(study))

    def bound(self, study: Study) -> float:
        """Returns the seconds a new trial needs to catch up; minus infinity before any report."""
        pace = study.index("pace", PaceIndex)
        seconds, furthest, steps = pace.step_seconds, pace.furthest_seconds, self.max_steps
        if seconds is None:
            return -math.inf
        if self.readmit:
            running = study.in_state(RUNNING).values()
            if running:
                furthest = max(trial.seconds for trial in running)
            else:
                steps = self.min_steps  # no running trial is deprived of units
        return admission_bound(
            furthest_seconds=furthest, eta=self.eta, step_seconds=seconds, max_steps=steps
        )
