"""Rows of the ledger's tables as frozen records, with enums and nested values already parsed.

Code outside of the ledger sees these records and never a row of the database driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from hpo_ops.core import TrialState
from hpo_ops.protocol import Action, Cause, Outcome, ParamValue, Provenance, SegmentResult


@dataclass(frozen=True, kw_only=True)
class ServedFrom:
    """The trial whose reports the score cache replayed into another trial.

    Attributes:
        study: Key of the study of the source trial.
        trial: Number of the source trial.
        step: Last step that was replayed.
    """

    study: str
    trial: int
    step: int


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """A trial, as it was when it was read.

    Attributes:
        number: Its number in the study. In a study with folds each fold is a trial.
        params: Its hyperparameters; None until the sampler was asked for them.
        parent: The trial whose checkpoint it starts from, for a copy.
        requested_params: Hyperparameters that the scheduler or a user asked for; None leaves them
            to the sampler.
        cache_key: The same for trials that would report the same; None for one that is not cached.
        served: The trial that it was served from by the score cache.
        until_step: The step at which its next segment ends; None is the training's own end.
        failures: Segments that failed.
        preemptions: Preemptions in a row without a new checkpoint between them.
        step: Its last reported step.
        value: Its best value of the objective.
        best_step: The step of its best value.
        metrics: Its last reported metrics.
        violations: By how much it violates each constraint; None until that is known.
        reason: Why it is in its state, as a sentence for people.
        is_told: Whether the sampler knows how it ended.
        queued_at: When it last asked for a lease in vain; None while it has one.
    """

    number: int
    state: TrialState
    params: Mapping[str, ParamValue] | None
    parent: int | None
    requested_params: Mapping[str, ParamValue] | None
    seed: int
    cache_key: str | None
    served: ServedFrom | None
    until_step: int | None
    failures: int
    preemptions: int
    step: int
    value: float | None
    best_step: int | None
    metrics: Mapping[str, float] | None
    violations: Sequence[float] | None
    reason: str
    is_told: bool
    queued_at: datetime | None
    added_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class SegmentRow:
    """A segment, as it was when it was read.

    Attributes:
        key: Idempotency key of the request that started it: the same key gets it again.
        from_step: The step of the checkpoint that it starts from; 0 without one.
        until_step: The step at which it ends; None is the training's own end.
        units: Width of the trial in it.
        provenance: What it is trained with, as far as is known.
        requested_action: The last decision that it was told to carry out. It stands until the
            segment ends.
        requested_reason: The reason of that decision.
        outcome: How it ended; None while it is open.
        step: Its last trained step, once it has ended.
        reason: Why it ended, as a sentence for people.
        cause: Why it ended, for programs.
        exit_code: Exit code of its training, where it is known.
    """

    id: str
    trial: int
    key: str
    from_step: int
    until_step: int | None
    runner: str
    units: float
    provenance: Provenance
    requested_action: Action | None
    requested_reason: str
    outcome: Outcome | None
    step: int | None
    reason: str
    cause: Cause | None
    exit_code: int | None
    started_at: datetime
    ended_at: datetime | None

    @property
    def is_open(self) -> bool:
        """Whether the segment has not ended."""
        return self.outcome is None

    @property
    def result(self) -> SegmentResult | None:
        """How the segment ended; None while it is open."""
        if self.outcome is None:
            return None
        return SegmentResult(
            outcome=self.outcome,
            step=self.step or 0,
            reason=self.reason,
            exit_code=self.exit_code,
            cause=self.cause or Cause.UNKNOWN,
        )


@dataclass(frozen=True, kw_only=True)
class RoundRow:
    """A round that was sampled.

    Attributes:
        members: Numbers of its trials.
        reason: Why the scheduler chose these trials.
        is_collected: Whether the round was closed.
    """

    number: int
    members: Sequence[int]
    reason: str
    is_collected: bool


@dataclass(frozen=True, kw_only=True)
class TrialIdentity:
    """The seed and the cache key that a trial gets together with its parameters.

    Attributes:
        seed: Its seed; None keeps the one that the trial was added with.
        cache_key: The same for trials that would report the same; None for one that is not cached.
    """

    seed: int | None = None
    cache_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Mishaps:
    """How often the segments of a trial ended through no fault of its training.

    Attributes:
        preemptions: Preempted segments, those that ran out of memory apart.
        out_of_memory: Segments that ran out of memory.
    """

    preemptions: int = 0
    out_of_memory: int = 0


def read_trial(row: Row[Any]) -> TrialRow:
    """A trial from a row that has all columns of the table of trials."""
    return TrialRow(
        number=row.number,
        state=TrialState(row.state),
        params=row.params,
        parent=row.parent,
        requested_params=row.requested_params,
        seed=row.seed,
        cache_key=row.cache_key,
        served=ServedFrom(**row.served) if row.served else None,
        until_step=row.until_step,
        failures=row.failures,
        preemptions=row.preemptions,
        step=row.step,
        value=row.value,
        best_step=row.best_step,
        metrics=row.metrics,
        violations=row.violations,
        reason=row.reason,
        is_told=row.told,
        queued_at=row.queued_at,
        added_at=row.at,
        ended_at=row.ended_at,
    )


def read_segment(row: Row[Any]) -> SegmentRow:
    """A segment from a row that has all columns of the table of segments."""
    return SegmentRow(
        id=row.id,
        trial=row.trial,
        key=row.key,
        from_step=row.from_step,
        until_step=row.until_step,
        runner=row.runner,
        units=row.units,
        provenance=Provenance.from_dict(row.provenance or {}),
        requested_action=None if row.requested_action is None else Action(row.requested_action),
        requested_reason=row.requested_reason or "",
        outcome=None if row.outcome is None else Outcome(row.outcome),
        step=row.step,
        reason=row.reason,
        cause=None if row.cause is None else Cause(row.cause),
        exit_code=row.exit_code,
        started_at=row.at,
        ended_at=row.ended_at,
    )


def read_round(row: Row[Any]) -> RoundRow:
    """A round from a row that has all columns of the table of rounds."""
    return RoundRow(
        number=row.number,
        members=tuple(row.members),
        reason=row.reason,
        is_collected=row.collected_at is not None,
    )
