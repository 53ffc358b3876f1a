"""Even, uniform and top-trial allocation: equal numbers of units, or more for better trials.

A unit is the smallest amount of a pool that is allocated, such as a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hpo_ops.allocators._hypersched_resizing import is_worth_resizing, startup_seconds
from hpo_ops.allocators._placement import Placer
from hpo_ops.allocators._remaining_work import trials_of
from hpo_ops.core import Allocation, Capacity, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.core.trial_state import as_width


@dataclass(frozen=True, kw_only=True)
class Even:
    """Gives every trial the same number of units; more trials than units share the units.

    Example:
        >>> Even()
        Even()
    """

    @property
    def is_static(self) -> Literal[True]:
        """Always true: the widths depend only on the number of trials and on the capacity."""
        return True

    def allocate(
        self, study: Study, group: TrialGroup, capacity: Capacity, now: float
    ) -> Allocation:
        trials = trials_of(study, group.members)
        count, units = len(trials), capacity.units
        if count <= units:
            width = as_width(min(units // max(count, 1), capacity.max_width))
        else:
            width = as_width(1, min(math.ceil(count / max(units, 1)), capacity.max_share))
        placer = _place(trials, [width] * count, capacity)
        return Allocation(placer.placed, tuple(placer.queued), f"{width} units for each trial")


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Gives every trial one unit, and deals the spare units in turn, from the best trial down.

    The reallocation of HyperSched (Liaw et al., SoCC 2019,
    https://doi.org/10.1145/3357223.3362719). A running trial is restarted with more units only if
    the restart pays off in the remaining time (``min_gain``) and the trial has reported often
    enough since its last start (``cool_down``). A trial is restarted with fewer units whenever
    other trials need units.

    Departures: none known. The time of a restart is the 90th percentile of observed start-ups.

    Example:
        >>> Uniform(speedups=(1.0, 1.77, 2.93, 4.29)).cool_down
        5

    Attributes:
        speedups: Training speed on 1, 2, 4, 8, ... units relative to one unit; if empty, the speed
            is proportional to the number of units.
        min_gain: Threshold for a restart: the ratio of the training progress until the deadline
            with the restart to that without the restart must exceed it.
        cool_down: Threshold that the number of a trial's reports since its last start must exceed
            before the trial gets more units.
    """

    speedups: tuple[float, ...] = ()
    min_gain: float = 1.1
    cool_down: int = 5

    def __post_init__(self) -> None:
        check_at_least("min_gain", self.min_gain, 1)
        check_at_least("cool_down", self.cool_down, 0)

    def allocate(
        self, study: Study, group: TrialGroup, capacity: Capacity, now: float
    ) -> Allocation:
        trials = by_score(trials_of(study, group.members))
        targets = uniform_widths(len(trials), capacity.units, capacity.max_width)
        widths = self._worthwhile(study, trials, targets, now)
        placer = _place(trials, [as_width(width) for width in widths], capacity)
        reason = f"{capacity.units} units dealt in turn to {len(trials)} trials, the best first"
        return Allocation(placer.placed, tuple(placer.queued), reason)

    def _worthwhile(
        self, study: Study, trials: Sequence[Trial], targets: Sequence[int], now: float
    ) -> list[int]:
        startup = startup_seconds(study)
        widths = []
        for trial, target in zip(trials, targets, strict=True):
            held = int(trial.width)
            widens = trial.state is TrialState.RUNNING and 1 <= held < target
            worth = not widens or is_worth_resizing(
                old=held,
                new=target,
                seconds_left=study.goal.seconds_left(now),
                startup=startup,
                reports=len(trial.observations) - trial.observations_at_start,
                speedups=self.speedups,
                min_gain=self.min_gain,
                cool_down=self.cool_down,
            )
            widths.append(target if worth else held)
        return widths


@dataclass(frozen=True, kw_only=True)
class TopTrial:
    """Gives every trial one unit, and the spare units to the best trial, then to the next best.

    The TOP_JOB policy in HyperSched's code (Liaw et al., SoCC 2019).

    Example:
        >>> TopTrial()
        TopTrial()
    """

    def allocate(
        self, study: Study, group: TrialGroup, capacity: Capacity, now: float
    ) -> Allocation:
        trials = by_score(trials_of(study, group.members))
        spare = max(capacity.units - len(trials), 0)
        widths = []
        for _ in trials:
            extra = min(spare, capacity.max_width - 1)
            spare -= extra
            widths.append(as_width(1 + extra))
        placer = _place(trials, widths, capacity)
        return Allocation(placer.placed, tuple(placer.queued), "spare units go to the best trials")


def uniform_widths(trials: int, units: int, max_width: int) -> list[int]:
    """Deals units to trials in turn, and returns the number of units of each trial.

    Every trial gets one unit or more, even if trials outnumber units, and at most ``max_width``.

    >>> uniform_widths(5, 8, 8)
    [2, 2, 2, 1, 1]

    Args:
        trials: Number of trials.
        units: Number of units for all trials.
        max_width: Largest number of units of one trial.
    """
    if trials == 0:
        return []
    each, extra = divmod(max(units, trials), trials)
    return [min(each + (rank < extra), max_width) for rank in range(trials)]


def by_score(trials: Sequence[Trial]) -> list[Trial]:
    """Sorts trials by their last score, the best first; trials without a score come last."""
    ranked = []
    for trial in trials:
        seen = trial.observations
        rank = (False, -seen[-1].score) if seen else (True, 0.0)
        ranked.append((rank, trial.number, trial))
    ranked.sort()
    return [trial for _, _, trial in ranked]


def _place(trials: Sequence[Trial], widths: Sequence[Fraction], capacity: Capacity) -> Placer:
    placer = Placer(capacity, trials)
    for trial, width in zip(trials, widths, strict=True):
        placer.place(trial, width)
    return placer
