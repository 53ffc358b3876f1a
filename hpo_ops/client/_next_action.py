"""The next action of a trial's task, and the end of a wait."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpo_ops.client._study_handle import StudyHandle
from hpo_ops.client._trial_results import TrialResult
from hpo_ops.protocol import Assignment, Message


class NextActionKind(StrEnum):
    """What a trial's task does next."""

    RUN = "run"
    WAIT = "wait"
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class NextAction(Message):
    """The gateway's answer to a trial's task that asks what to do next.

    Attributes:
        kind: Run a segment, wait to be woken, or finish.
        reason: Why.
        assignment: The segment to run.
        token: The token with which the segment's agent authenticates itself.
        score: The trial's result, if the task is to finish.
        is_next: The trial waits and is the first in the queue: worth a short wait in the worker.
        preemptions: How often segments of the trial were preempted before.
        ooms: How often the trial ran out of memory before.
        study: The study, with its configuration.
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
    """A deferred task that waits: that of a trial for its slot, or a sensor for its study.

    Attributes:
        study_id: The study.
        trial: The trial; None for a sensor.
        seen: For a sensor: finished trials when it last looked, which a new one wakes; None wakes
            it only when the study is over.
    """

    study_id: int
    trial: int | None = None
    seen: int | None = None


@dataclass(frozen=True, kw_only=True)
class WakeUp(Message):
    """The end of a wait.

    Attributes:
        study_id: The study.
        trial: The trial whose task is woken; None for sensors of the study.
        reason: Why the wait is over.
        score: The trial's result, if the trial will not run any more.
    """

    study_id: int
    trial: int | None = None
    reason: str
    score: TrialResult | None = None
