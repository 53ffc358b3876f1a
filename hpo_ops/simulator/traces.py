"""Traces: the reports that every trial of a study would make if it ran to its full length."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from random import Random
from typing import NamedTuple

from hpo_ops.core import Direction, TrialState, derive_seed
from hpo_ops.protocol import ParamValue


class TraceError(ValueError):
    """A trace or a trace file is invalid."""


class SegmentRecord(NamedTuple):
    """A recorded segment; times are seconds since the study started."""

    start: float
    end: float
    from_step: int
    to_step: int
    outcome: str


@dataclass(frozen=True)
class TrialRecord:
    """The recorded history of a trial.

    Attributes:
        trial: Number of the trial in the recorded study.
        state: Its state when it was recorded.
        times: Time of each report, in seconds since the study started.
        segments: Its segments, in order.
    """

    trial: int
    state: TrialState
    times: tuple[float, ...]
    segments: tuple[SegmentRecord, ...]

    @property
    def is_cut_short(self) -> bool:
        """Whether the trial could have trained longer: it neither completed nor failed."""
        return self.state not in (TrialState.COMPLETED, TrialState.FAILED)


@dataclass(frozen=True, kw_only=True)
class StudyTerms:
    """The configuration and state of a recorded study.

    Attributes:
        run: Its DAG run.
        scheduler: Its scheduler as in a study file: the name and its options.
        slots: Number of trials that could run at the same time.
        rounds: Whether it ran in rounds, with a barrier after each.
        reproducible: Whether its scheduler decided only between rounds.
        trials: Largest number of trials.
        target: Value of the metric that ends the study.
        deadline_seconds: Seconds since the start after which no trial ran.
        state: State of the study when it was recorded.
        reason: Why it ended.
        silent: Numbers of trials without reports, which are not in the traces.
        curves: Its curve predictor as in a study file; None for the default.
    """

    run: str
    scheduler: Mapping[str, object]
    slots: int
    rounds: bool
    reproducible: bool = False
    trials: int = 0
    target: float | None = None
    deadline_seconds: float | None = None
    state: str = ""
    reason: str = ""
    silent: tuple[int, ...] = ()
    curves: Mapping[str, object] | None = None


@dataclass(frozen=True)
class TrialTrace:
    """The trace of a trial: its values, and the seconds of each report on one unit.

    Attributes:
        values: The value of each report.
        seconds: Seconds of training before each report, on one unit.
        params: The hyperparameters.
        steps: The step of each report; empty for 1, 2, 3 and so on.
        measured: Number of values that were measured; the later ones were extrapolated. None if
            all were measured.
        record: The recorded history of the trial, if there is one.
    """

    values: tuple[float, ...]
    seconds: tuple[float, ...]
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    steps: tuple[int, ...] = ()
    measured: int | None = None
    record: TrialRecord | None = None

    def __post_init__(self) -> None:
        count = len(self.values)
        if count != len(self.seconds):
            raise TraceError(
                f"a trial has {count} values and {len(self.seconds)} seconds, "
                "but must have as many of both"
            )
        if not count:
            raise TraceError("a trial has no steps, but must have one or more")
        if not 0 <= min(self.seconds) <= max(self.seconds) < math.inf:
            worst = next(s for s in self.seconds if not 0 <= s < math.inf)
            raise TraceError(f"a step took {worst} seconds, but must take 0 or more")
        if any(map(math.isinf, self.values)):
            raise TraceError("a value is infinite, but must be a finite number, or null for none")
        if self.steps:
            _check_steps(self.steps, count)
        if self.measured is not None and not 0 <= self.measured <= count:
            raise TraceError(f"measured is {self.measured}, but must be from 0 to {count}")
        if self.record is not None and len(self.record.times) not in (count, self.measured):
            raise TraceError(
                f"a trial has {count} values and {len(self.record.times)} times, "
                "but must have as many of both"
            )

    @cached_property
    def at_steps(self) -> Sequence[int]:
        """The step of each value."""
        return self.steps or _first_steps(len(self.values))


@lru_cache(maxsize=256)
def _first_steps(count: int) -> tuple[int, ...]:
    """The steps 1, 2, 3, ... as a shared tuple, in which lookups are faster than in a range."""
    return tuple(range(1, count + 1))


def _check_steps(steps: tuple[int, ...], count: int) -> None:
    if len(steps) != count:
        raise TraceError(
            f"a trial has {count} values and {len(steps)} steps, but must have as many of both"
        )
    if steps[0] < 0 or any(after <= before for before, after in pairwise(steps)):
        raise TraceError("steps must be 0 or more and rise")


@dataclass(frozen=True)
class Traces:
    """The traces of a study, to be replayed.

    Attributes:
        name: The study's name.
        metric: The metric's name.
        direction: The direction of the metric.
        trials: The traces of its trials, in the order in which they start.
        terms: The configuration of the study, if it was recorded.
    """

    name: str
    metric: str
    direction: Direction
    trials: tuple[TrialTrace, ...]
    terms: StudyTerms | None = None

    @property
    def max_steps(self) -> int:
        """The last step of the longest trial."""
        return max(trial.at_steps[-1] for trial in self.trials)

    def reorder(self, seed: int) -> Traces:
        """The same trials in another order; seed 0 keeps the order."""
        if seed == 0:
            return self
        random = Random(derive_seed(seed, "order"))  # noqa: S311 (no secret)
        trials = list(self.trials)
        random.shuffle(trials)
        return replace(self, trials=tuple(trials))

    def resample(self, count: int, seed: int) -> Traces:
        """A bootstrap sample: ``count`` trials drawn with replacement."""
        random = Random(derive_seed(seed, "resample"))  # noqa: S311 (no secret)
        return replace(self, trials=tuple(random.choices(self.trials, k=count)))

    def settled_value(self) -> float:
        """The final level of the best trial: the best mean of the last tenth of a trial's values.

        A mean, since a single value depends on luck.
        """
        means = []
        for trial in self.trials:
            scores = [
                self.direction.to_score(value) for value in trial.values if not math.isnan(value)
            ]
            tail = scores[-max(len(trial.values) // 10, 1) :]
            if tail:
                means.append(sum(tail) / len(tail))
        if not means:
            raise TraceError(f"{self.name} has no value that is a number")
        return self.direction.to_value(max(means))
