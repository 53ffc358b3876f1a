"""The end of a segment: its outcome, its cause and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpo_ops.protocol._message import Message
from hpo_ops.protocol.field_checks import storable_text


class Outcome(StrEnum):
    """What the end of a segment means for its trial.

    A completed, paused or preempted segment can be followed by another one of the same trial;
    after a stopped one there is none, and after a failed one only if the study has retries.
    """

    COMPLETED = "completed"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    PREEMPTED = "preempted"


class Cause(StrEnum):
    """Why a segment ended, for programs and filters; the reason beside it is for people.

    A cause that this version does not know is read as `UNKNOWN`, so that agents and gateways of
    different versions understand each other.
    """

    FINISHED = "finished"
    """The training came to its end by itself."""
    REQUESTED = "requested"
    """A decision or the end of the study asked the training to pause or to stop."""
    TRAINING_ERROR = "training_error"
    """The training raised an exception, or ended with an exit code other than 0."""
    INVALID_REPORT = "invalid_report"
    """The training wrote a report, result or checkpoint that violates the protocol."""
    OUT_OF_MEMORY = "out_of_memory"
    """The kernel killed the training because it used more memory than it was given."""
    NOT_STARTED = "not_started"
    """The training never ran: no capacity in time, no image, or its setup failed."""
    KILLED = "killed"
    """The training was ended by a signal of unknown origin."""
    EVICTED = "evicted"
    """The platform took the pod or container away: evicted, preempted, drained or deleted."""
    NODE_LOST = "node_lost"
    """The node stopped answering or was restarted."""
    AGENT_LOST = "agent_lost"
    """The agent did not report how the segment ended, or lost its connection to the gateway."""
    TASK_LOST = "task_lost"
    """The Airflow task of the segment, or the worker that ran the task, is gone."""
    SERVED_FROM_CACHE = "served_from_cache"
    """Nothing was trained: the score cache had the reports of an identical trial."""
    UNKNOWN = "unknown"
    """No cause was given, as by agents older than this field."""

    @classmethod
    def _missing_(cls, value: object) -> Cause | None:
        return cls.UNKNOWN if isinstance(value, str) else None


@dataclass(frozen=True, kw_only=True)
class SegmentResult(Message):
    """How a segment ended, as ``result.json``, its agent or its runner tells it.

    Attributes:
        outcome: What the end means for the trial.
        step: The last step that was trained.
        reason: Why it ended, as a sentence for people. No program reads it.
        exit_code: Exit code of the training, negative for a signal; None if unknown.
        cause: Why it ended, for programs.
    """

    outcome: Outcome
    step: int = 0
    reason: str = ""
    exit_code: int | None = None
    cause: Cause = Cause.UNKNOWN

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable_text(self.reason))
