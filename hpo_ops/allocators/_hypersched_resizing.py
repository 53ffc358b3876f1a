"""HyperSched's resizing rule: whether restarting a trial with more units (such as GPUs) pays off.

A restart costs start-up time, so that it pays off only with enough time left until the deadline.
"""

from __future__ import annotations

import math

from hpo_ops.core import Ranking, Study, Trial, TrialState
from hpo_ops.core.unit_scaling import speedup


def resize_gain(
    *, old: int, new: int, seconds_left: float, startup: float, speedups: tuple[float, ...]
) -> float:
    """Returns the ratio of the training progress until the deadline with and without a resize.

    The arguments are those of `is_worth_resizing`.

    >>> table = (1.0, 1.77, 2.93, 4.29)
    >>> round(resize_gain(old=1, new=2, seconds_left=600, startup=40, speedups=table), 3)
    1.652
    """
    ratio = speedup(new, speedups) / speedup(old, speedups)
    if math.isinf(seconds_left):
        return ratio
    if seconds_left <= 0:
        return 0.0
    return ratio * (seconds_left - startup) / seconds_left


def is_worth_resizing(
    *,
    old: int,
    new: int,
    seconds_left: float,
    startup: float,
    reports: int,
    speedups: tuple[float, ...] = (),
    min_gain: float = 1.1,
    cool_down: int = 5,
) -> bool:
    """Checks whether a running trial should be restarted with more units (such as GPUs).

    Args:
        old: Number of units that the trial holds.
        new: Number of units that the trial could get.
        seconds_left: Seconds until the deadline; infinity without a deadline.
        startup: Seconds that a restart takes.
        reports: Number of the trial's reports since it last started.
        speedups: Training speed on 1, 2, 4, 8, ... units relative to one unit; if empty, the speed
            is proportional to the number of units.
        min_gain: Threshold that the gain (see `resize_gain`) must exceed.
        cool_down: Threshold that ``reports`` must exceed.
    """
    gain = resize_gain(
        old=old, new=new, seconds_left=seconds_left, startup=startup, speedups=speedups
    )
    return reports > cool_down and gain > min_gain


class StartupIndex:
    """Index of the start-up time of each trial's newest segment that has reported.

    A segment is one uninterrupted execution of a trial. Its start-up time is the time from its
    start to its first training step.
    """

    def __init__(self) -> None:
        self._ranking = Ranking()
        self._known: dict[int, float] = {}

    @property
    def usual(self) -> float:
        """The 90th percentile of the trials' start-up times; 0 before the first report."""
        return self._ranking.quantile(0.9) if self._known else 0.0

    def reported(self, trial: Trial, before: int) -> None:
        if len(trial.observations) == trial.observations_at_start + 1:
            number, seconds = trial.number, trial.startup_seconds
            if number in self._known:
                self._ranking.remove(self._known[number])
            self._known[number] = seconds
            self._ranking.add(seconds)

    def moved(self, trial: Trial, before: TrialState) -> None:
        """Does nothing when a trial changes its state: only first reports add start-up times."""


def startup_seconds(study: Study) -> float:
    """Returns the 90th percentile of the trials' start-up times, or 0 before the first report."""
    return study.index("start-ups", StartupIndex).usual
