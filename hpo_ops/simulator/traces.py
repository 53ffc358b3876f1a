"""Defines traces: the reports of every trial of a study, which the simulator replays.

A segment is one uninterrupted execution of a trial.
"""

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
    """A recorded segment of a trial; `start` and `end` are seconds since the study started."""

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
        state: State of the trial when it was recorded.
        times: Time of each report, in seconds since the study started.
        segments: Segments of the trial, in order.
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
        run: ID of the DAG run of the study.
        scheduler: The scheduler as in a study file: its name and options.
        slots: Number of trials that could run at the same time.
        rounds: Whether the study ran in rounds (batches of trials with a barrier after each).
        reproducible: Whether the scheduler decided only between rounds.
        trials: Maximum number of trials.
        target: Value of the objective at which the study ends; None for no target.
        deadline_seconds: Seconds after which the study ends; None for no deadline.
        state: State of the study when it was recorded.
        reason: Why the study ended; may be empty.
        silent: Numbers of trials without reports, which are not in the traces.
        curves: The curve predictor as in a study file; None for the default predictor.
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
    """The trace of a trial: the value and the training time of each of its reports.

    Attributes:
        values: The objective value of each report.
        seconds: Seconds of training between the previous report and each report, on one resource
            unit.
        params: The hyperparameters.
        steps: The step of each report; empty for 1, 2, 3 and so on.
        measured: Number of values that were measured; later values were extrapolated. None if all
            values were measured.
        record: The recorded history of the trial; None if the trace was not recorded.
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
        """The step of each report; 1, 2, 3 and so on if `steps` is empty."""
        return self.steps or _first_steps(len(self.values))


@lru_cache(maxsize=256)
def _first_steps(count: int) -> tuple[int, ...]:
    """Returns the steps from 1 to ``count`` as a cached tuple, which is faster than a range."""
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
        trials: The traces of the trials, in the order in which the trials are replayed.
        terms: The configuration of the study if it was recorded, otherwise None.
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
        """Returns the traces with the trials in a random order; unchanged if the seed is 0."""
        if seed == 0:
            return self
        random = Random(derive_seed(seed, "order"))  # noqa: S311 (no secret)
        trials = list(self.trials)
        random.shuffle(trials)
        return replace(self, trials=tuple(trials))

    def resample(self, count: int, seed: int) -> Traces:
        """Returns traces of a bootstrap sample: ``count`` trials drawn with replacement."""
        random = Random(derive_seed(seed, "resample"))  # noqa: S311 (no secret)
        return replace(self, trials=tuple(random.choices(self.trials, k=count)))

    def settled_value(self) -> float:
        """Returns the final level of the best trial.

        The final level of a trial is the mean of the last tenth of its values, because a single
        value is too noisy.

        Raises:
            TraceError: No trial has a value that is a number.
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
