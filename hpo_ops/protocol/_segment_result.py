"""The end of a segment (one uninterrupted execution of a trial): outcome, cause and reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpo_ops.protocol._message import Message
from hpo_ops.protocol.field_checks import storable_text


class Outcome(StrEnum):
    """The possible outcomes of a segment: completed, paused, stopped, failed, preempted.

    After a completed, paused or preempted segment, another segment of the trial may follow. After
    a stopped segment, no other segment follows; after a failed segment, only if the study allows
    retries.
    """

    COMPLETED = "completed"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    PREEMPTED = "preempted"


class Cause(StrEnum):
    """The possible causes of a segment's end, for programs; `SegmentResult.reason` is for people.

    A cause that this version does not know is read as `UNKNOWN`, so that agents and gateways of
    different versions understand each other.
    """

    FINISHED = "finished"
    """The training finished by itself."""
    REQUESTED = "requested"
    """The training paused or stopped because of a policy's decision or the end of the study."""
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
    """The pod or container was evicted, preempted, drained or deleted by the platform."""
    NODE_LOST = "node_lost"
    """The node on which the training ran stopped responding or was restarted."""
    AGENT_LOST = "agent_lost"
    """The agent did not report how the segment ended, or lost its connection to the gateway."""
    TASK_LOST = "task_lost"
    """The Airflow task of the segment, or the worker that ran the task, disappeared."""
    SERVED_FROM_CACHE = "served_from_cache"
    """Nothing was trained: the score cache served the reports of an identical earlier trial."""
    UNKNOWN = "unknown"
    """No cause was sent, for example by an older agent that does not know this field."""

    @classmethod
    def _missing_(cls, value: object) -> Cause | None:
        return cls.UNKNOWN if isinstance(value, str) else None


@dataclass(frozen=True, kw_only=True)
class SegmentResult(Message):
    """How a segment ended, as reported by the file ``result.json``, the agent or the runner.

    Attributes:
        outcome: The kind of end, such as completed or failed.
        step: The last step that was trained.
        reason: Why the segment ended, as a sentence for people. No program evaluates it.
        exit_code: Exit code of the training, negative for a signal; None if unknown.
        cause: Why the segment ended, for programs.
    """

    outcome: Outcome
    step: int = 0
    reason: str = ""
    exit_code: int | None = None
    cause: Cause = Cause.UNKNOWN

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable_text(self.reason))
