"""A trial: one hyperparameter configuration and its whole history."""

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
    """Where a trial is in its life.

    ``WAITING`` has parameters but never ran, ``PAUSED`` ran and holds no resources, ``PRUNED`` was
    ended by a decision.
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
"""A member is looked up slowly, and these are asked for whenever a trial starts or ends."""


@lru_cache(maxsize=4096)
def as_width(units: int, among: int = 1) -> Fraction:
    """So many units, or a share of one that so many have; always the same object.

    Fractions are compared slowly: where both are made here, that they are the same one says it.

    >>> as_width(3), as_width(1, among=2)
    (Fraction(3, 1), Fraction(1, 2))
    """
    return Fraction(units, among)


NO_UNIT, ONE_UNIT = as_width(0), as_width(1)


class Forecast(Protocol):
    """A prediction of a trial's learning curve, in scores (greater is better)."""

    def probability(self, score: float, *, by_step: int) -> float:
        """The probability that the trial's score is at least this at that step."""
        ...


class Observation(NamedTuple):
    """A report as a policy sees it: ``score`` is the value, negated where less is better."""

    step: int
    score: float
    seconds: float
    width: Fraction = ONE_UNIT
    """Resources that the step was trained with."""

    @property
    def unit_seconds(self) -> float:
        """The time it would have taken on one unit, at ideal scaling."""
        width = self.width
        if width is ONE_UNIT:
            return self.seconds
        return self.seconds * (width.numerator / width.denominator)


as_observation: Callable[[tuple[int, float, float, Fraction]], Observation]
as_observation = partial(tuple.__new__, Observation)
"""Makes one of its four fields in half the time that a call of the class takes."""


@dataclass(slots=True)
class Trial:
    """What a policy may know of a trial. Only the study that holds it changes it."""

    number: int
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    state: TrialState = TrialState.WAITING
    observations: list[Observation] = field(default_factory=list)
    step: int = 0
    """The last reported step; 0 before the first."""
    best_score: float | None = None
    best_step: int | None = None
    seconds: float = 0.0
    """Training time of all reported steps."""
    checkpoint_step: int = 0
    """Step of the newest whole checkpoint; 0 without one."""
    width: Fraction = NO_UNIT
    """Resources held now: whole GPUs, or a share of one; 0 when not running."""
    units: tuple[int, ...] = ()
    """The units it runs on, where an allocator places trials."""
    group: int = 0
    """The trial group it last ran in, in the order of arrival."""
    unit_seconds: float = 0.0
    """Training time of all reported steps as if each had run on one unit, at ideal scaling."""
    decided_step: int | None = None
    """While paused: the step of the report on which that was decided; None without a decision."""
    segments: int = 0
    startup_seconds: float = 0.0
    """From the start of the newest segment to its first step."""
    observations_at_start: int = 0
    """Number of observations when the newest segment started."""
    forecast: Forecast | None = None
    priority: float | None = None
    """Trials that wait go on in the order of their labels, greatest first, then those without."""
    is_retraining: bool = False
    """It trains the best trial of a study with folds once more, on all data."""

    @property
    def step_at_start(self) -> int:
        """The last reported step when the newest segment started; 0 before the first."""
        count = self.observations_at_start
        return self.observations[count - 1].step if count else 0

    @property
    def score(self) -> float | None:
        """The last reported score."""
        return self.observations[-1].score if self.observations else None

    @property
    def step_seconds(self) -> float | None:
        """Mean training time of a report's steps; None before the first."""
        return self.seconds / len(self.observations) if self.observations else None

    @property
    def unit_step_seconds(self) -> float | None:
        """Mean training time of a report's steps on one unit; None before the first."""
        return self.unit_seconds / len(self.observations) if self.observations else None

    def score_at(self, step: int) -> float | None:
        """The score first reported at or after a step."""
        seen = self.observations
        if 0 < step <= len(seen) and seen[step - 1].step == step:  # no gaps before it, as is usual
            return seen[step - 1].score
        index = bisect_left(seen, step, key=lambda item: item.step)
        return seen[index].score if index < len(seen) else None
