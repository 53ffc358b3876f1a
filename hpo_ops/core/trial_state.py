"""A trial as policies see it: its state, its observations and its resources."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache, partial
from typing import NamedTuple, Protocol

from hpo_ops.protocol import ParamValue


class TrialState(StrEnum):
    """The states of a trial.

    A ``WAITING`` trial has never run. A ``PAUSED`` trial has run, holds no resources and can be
    resumed. A ``PRUNED`` trial was stopped by a decision and cannot be resumed.
    """

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    PRUNED = "pruned"
    FAILED = "failed"

    @property
    def is_finished(self) -> bool:
        return self in FINISHED


FINISHED = frozenset({TrialState.COMPLETED, TrialState.PRUNED, TrialState.FAILED})
WAITING, RUNNING, PAUSED = TrialState.WAITING, TrialState.RUNNING, TrialState.PAUSED
COMPLETED, PRUNED = TrialState.COMPLETED, TrialState.PRUNED
"""Globals for enum members: a global is faster to look up, at every start and end of a trial."""


@lru_cache(maxsize=4096)
def as_width(units: int, among: int = 1) -> Fraction:
    """Returns the width of each of ``among`` trials that share ``units`` units equally.

    A width is a number of units, or a fraction if several trials share a unit.

    The results are cached, so that callers can compare widths by identity first: comparing
    fractions is slow.

    >>> as_width(3), as_width(1, among=2)
    (Fraction(3, 1), Fraction(1, 2))
    """
    return Fraction(units, among)


NO_UNIT, ONE_UNIT = as_width(0), as_width(1)


class Forecast(Protocol):
    """A probabilistic prediction of a trial's learning curve, in scores."""

    def probability(self, score: float, *, by_step: int) -> float:
        """Returns the probability that the score at step ``by_step`` is at least ``score``."""
        ...


class Observation(NamedTuple):
    """A report as policies see it: its score is normalised, so that larger is better."""

    step: int
    score: float
    seconds: float
    width: Fraction = ONE_UNIT
    """The trial's width (number of units, or a fraction of one unit) while it trained the step."""

    @property
    def unit_seconds(self) -> float:
        """Training time of the report as if on one unit: seconds multiplied by the width."""
        width = self.width
        if width is ONE_UNIT:
            return self.seconds
        return self.seconds * (width.numerator / width.denominator)


as_observation: Callable[[tuple[int, float, float, Fraction]], Observation]
as_observation = partial(tuple.__new__, Observation)
"""Creates an observation from its four fields in half the time of calling the class.

Every report creates an observation, and the simulator creates millions: calling the class slows
replays down by 7 to 9 %.
"""


@dataclass(slots=True)
class Trial:
    """A trial as policies see it. Only the `Study` that contains the trial may change it."""

    number: int
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    state: TrialState = TrialState.WAITING
    observations: list[Observation] = field(default_factory=list)
    step: int = 0
    """The last reported step; 0 before the first report."""
    best_score: float | None = None
    best_step: int | None = None
    seconds: float = 0.0
    """Training time of all reported steps."""
    checkpoint_step: int = 0
    """Step of the newest complete checkpoint; 0 if the trial has no checkpoint."""
    width: Fraction = NO_UNIT
    """Number of units that the trial holds now, or its fraction of one unit; 0 if not running."""
    units: tuple[int, ...] = ()
    """Indexes of the units that the trial runs on; empty if no allocator places trials."""
    group: int = 0
    """Number of the trial group in which the trial last ran; earlier groups have lower numbers."""
    unit_seconds: float = 0.0
    """Training time of all reported steps as if each had run on one unit, at ideal scaling."""
    decided_step: int | None = None
    """While paused: the step of the report on which the pause was decided; None otherwise."""
    segments: int = 0
    startup_seconds: float = 0.0
    """Seconds from the start of the newest segment to its first report."""
    observations_at_start: int = 0
    """Number of observations when the newest segment started."""
    forecast: Forecast | None = None
    priority: float | None = None
    """Priority while paused or waiting: the highest is resumed first, trials with None last."""
    is_retraining: bool = False
    """Whether the trial retrains the best parameters of a cross-validated study on all data."""

    @property
    def step_at_start(self) -> int:
        """The last step reported before the newest segment started; 0 without earlier reports."""
        count = self.observations_at_start
        return self.observations[count - 1].step if count else 0

    @property
    def score(self) -> float | None:
        """The last reported score; None before the first report."""
        return self.observations[-1].score if self.observations else None

    @property
    def step_seconds(self) -> float | None:
        """Mean training seconds per report; None before the first report."""
        return self.seconds / len(self.observations) if self.observations else None

    @property
    def unit_step_seconds(self) -> float | None:
        """Mean training seconds per report as if on one unit; None before the first report."""
        return self.unit_seconds / len(self.observations) if self.observations else None

    def score_at(self, step: int) -> float | None:
        """Returns the first score reported at or after a step, or None before such a report."""
        seen = self.observations
        if (
            0 < step <= len(seen) and seen[step - 1].step == step
        ):  # the usual case: every step was reported
            return seen[step - 1].score
        index = bisect_left(seen, step, key=lambda item: item.step)
        return seen[index].score if index < len(seen) else None
