"""Frozen records of rows of the ledger's tables, with enums and nested values parsed.

Code outside of the ledger uses these records instead of SQLAlchemy rows.
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
    """The source trial whose reports the score cache replayed into another trial.

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
    """A trial at the time at which its row was read.

    Attributes:
        number: Number of the trial in the study. In a study with folds each fold is a trial.
        params: Hyperparameters; None until the sampler has proposed them.
        parent: Number of the trial from whose checkpoint this trial starts; None if it starts from
            scratch.
        requested_params: Hyperparameters that the scheduler or a user requested; None if the
            sampler chooses all of them.
        cache_key: Hash of everything that determines the trial's reports, so that identical trials
            have the same key; None if the trial is not cached.
        served: Source trial whose reports the score cache replayed; None if none were replayed.
        until_step: Step at which the next segment ends; None for the training's own end.
        failures: Number of failed segments.
        preemptions: Number of preemptions since the last new checkpoint.
        step: Last reported step.
        value: Best value of the objective; None before the first report.
        best_step: Step of the best value.
        metrics: Last reported metrics.
        violations: Amount by which the trial violates each constraint; None until it is known.
        reason: Why the trial is in its state, as a sentence for people.
        is_told: Whether the sampler has received the result of the trial.
        queued_at: Time of the last refused request for a lease; None if the trial is not queued.
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
    """A segment (one uninterrupted execution of a trial) at the time at which its row was read.

    Attributes:
        key: Idempotency key of the request that started the segment: a repeated request with the
            same key returns the same segment.
        from_step: Step of the checkpoint from which the segment starts; 0 if it starts without a
            checkpoint.
        until_step: Step at which the segment ends; None for the training's own end.
        units: Number of resource units (such as GPUs); a fraction if trials share a unit.
        provenance: The known code, image, packages and hardware of the segment.
        requested_action: The last action that the segment was requested to carry out; None if
            no action was requested.
        requested_reason: Reason of the requested action.
        outcome: How the segment ended; None while it is open.
        step: Last trained step; None while the segment is open.
        reason: Why the segment ended, as a sentence for people.
        cause: Why the segment ended, as an enum for programs.
        exit_code: Exit code of the training process; None if it is not known.
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
        """How and why the segment ended, and its last step; None while the segment is open."""
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
    """A round: a batch of trials that were sampled together.

    Attributes:
        number: Number of the round in the study.
        members: Numbers of the round's trials.
        reason: Why the scheduler chose these trials.
        is_collected: Whether the round is closed: the results of its trials were collected.
    """

    number: int
    members: Sequence[int]
    reason: str
    is_collected: bool


@dataclass(frozen=True, kw_only=True)
class TrialIdentity:
    """The seed and the cache key that a trial is assigned together with its hyperparameters.

    Attributes:
        seed: New seed of the trial; None keeps the seed with which the trial was added.
        cache_key: Key that identical trials share in the score cache; None if the trial is not
            cached.
    """

    seed: int | None = None
    cache_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Mishaps:
    """Numbers of segments of one trial that were preempted or ran out of memory.

    Attributes:
        preemptions: Number of preempted segments that did not run out of memory.
        out_of_memory: Number of segments that ran out of memory.
    """

    preemptions: int = 0
    out_of_memory: int = 0


def read_trial(row: Row[Any]) -> TrialRow:
    """Converts a row with all columns of the table `trials` into a `TrialRow`."""
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
    """Converts a row with all columns of the table `segments` into a `SegmentRow`."""
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
    """Converts a row with all columns of the table `rounds` into a `RoundRow`."""
    return RoundRow(
        number=row.number,
        members=tuple(row.members),
        reason=row.reason,
        is_collected=row.collected_at is not None,
    )
