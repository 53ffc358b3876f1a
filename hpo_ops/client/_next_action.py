"""Messages that tell a trial's task what to do next, and that end the wait of a deferred task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpo_ops.client._study_handle import StudyHandle
from hpo_ops.client._trial_results import TrialResult
from hpo_ops.protocol import Assignment, Message


class NextActionKind(StrEnum):
    """The possible next actions of a trial's task: run a segment, wait, or finish (``done``)."""

    RUN = "run"
    WAIT = "wait"
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class NextAction(Message):
    """The gateway's answer to a trial's task: run a segment, wait, or finish.

    A segment is one uninterrupted execution of a trial.

    Attributes:
        kind: The action: to run a segment, to wait until the task is woken, or to finish.
        reason: Why the gateway chose this action, as a sentence for people.
        assignment: What the segment is to do; None if no segment is to run.
        token: The token of the segment's agent for the gateway; None if no segment is to run.
        score: The trial's result; None unless the task is to finish.
        is_next: Whether the trial is the first in the queue, so that its task may wait a short
            time in the worker instead of being deferred.
        preemptions: How often segments of the trial were preempted before.
        ooms: How often the trial ran out of memory before.
        study: Identity and configuration of the study.
    """

    kind: NextActionKind
    reason: str
    assignment: Assignment | None = None
    token: str | None = None
    score: TrialResult | None = None
    is_next: bool = False
    preemptions: int = 0
    ooms: int = 0
    study: StudyHandle | None = None


@dataclass(frozen=True, kw_only=True)
class Waiter(Message):
    """A deferred task: a trial's task that waits for a slot, or a sensor that waits for a study.

    Attributes:
        study_id: Id of the study.
        trial: Number of the trial; None for a sensor.
        seen: For a sensor, the number of finished trials at its last check: the sensor is woken
            when more trials have finished. None wakes the sensor only when the study has ended.
    """

    study_id: int
    trial: int | None = None
    seen: int | None = None


@dataclass(frozen=True, kw_only=True)
class WakeUp(Message):
    """The message that a deferred task is to be woken.

    Attributes:
        study_id: Id of the study.
        trial: Number of the trial whose task is woken; None for the study's sensors.
        reason: Why the task no longer has to wait.
        score: The trial's result, if the trial will not run any more.
    """

    study_id: int
    trial: int | None = None
    reason: str
    score: TrialResult | None = None
