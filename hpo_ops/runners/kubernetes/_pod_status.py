"""Reads the status of a segment's pod: pending, running, or how and why it ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hpo_ops.protocol import Cause, Outcome, SegmentResult
from hpo_ops.runners.kubernetes._pod_names import AGENT, PACKAGES, RESTORE, TRAINING
from hpo_ops.runners.kubernetes._segment_pod import UPLOAD_SECONDS

PREEMPTED_EXIT_CODES = {130, 137, 143}
"""Exit codes of processes that were ended by SIGTERM or SIGKILL, as by an eviction."""
LOST_SECONDS = 30.0
"""Time after the grace period of a deleted pod when its node counts as lost."""
LOST_REASONS = {"Unknown", "ContainerStatusUnknown"}
"""Reasons of containers that were gone after their node restarted: their end is unknown."""
UNSEEN_EXIT_CODE = 255
"""Exit code that containerd gives a container whose end it did not observe."""
HOPELESS = {"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
"""Reasons of a pending pod that waiting does not resolve."""
_TIMED_OUT = "timed out"
"""In the message of a reason that resolves itself: a new node cannot read secrets at first."""
_FAILED_PULL, _WAITS_TO_PULL = "ErrImagePull", "ImagePullBackOff"
_WORK = {RESTORE: "restoring", PACKAGES: "installing packages"}
"""What the platform's init containers do, for messages."""


class Phase(StrEnum):
    """The phase of a segment's pod."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True)
class PodStatus:
    """The state of a segment's pod.

    Attributes:
        phase: Where it is.
        reason: What it waits for, or how it ended.
        outcome: How the segment ended, if its agent has not reported it.
        exit_code: Of the training, where it has one.
        cause: Why the segment ended.
        is_hopeless: Whether it waits for something that will not come.
        is_lost: Whether its node has been silent since it was told to go.
        said: The last lines of an init container that failed.
    """

    phase: Phase
    reason: str = ""
    outcome: Outcome | None = None
    exit_code: int | None = None
    cause: Cause = Cause.UNKNOWN
    is_hopeless: bool = False
    is_lost: bool = False
    said: str = ""

    @property
    def result(self) -> SegmentResult:
        """How the segment ended, as far as the pod's status tells."""
        return SegmentResult(
            outcome=self.outcome or Outcome.PREEMPTED,
            reason=self.reason,
            exit_code=self.exit_code,
            cause=self.cause,
        )


GONE = PodStatus(Phase.ENDED, "its pod was deleted", Outcome.PREEMPTED, cause=Cause.EVICTED)


def read_status(pod: Any, now: datetime) -> PodStatus:
    """Reads the status of a pod, of either Kubernetes client.

    Args:
        pod: The pod; None where there is none.
        now: The time, to tell a pod that takes its leave from one that never will.
    """
    if pod is None:
        return GONE
    status = pod.status
    if _is_lost(pod, now):
        return PodStatus(
            Phase.ENDED,
            "its node stopped responding",
            Outcome.PREEMPTED,
            cause=Cause.NODE_LOST,
            is_lost=True,
        )
    if failure := _failure_before(pod):
        return failure
    containers = _terminated(status.container_statuses)
    if status.phase in ("Succeeded", "Failed") or _all_is_out(pod, containers, now):
        return _read_end(pod, containers)
    if status.phase == "Pending" or not _has_started(status.container_statuses):
        if pod.metadata.deletion_timestamp is not None:
            # Its secrets may be deleted first: then it only waits for its own deletion.
            return PodStatus(Phase.PENDING, "its pod is being deleted")
        reason, is_hopeless = _what_it_waits_for(status)
        return PodStatus(Phase.PENDING, reason, is_hopeless=is_hopeless)
    return PodStatus(Phase.RUNNING)


def telling_reason(before: str, now: str) -> str:
    """What to say of a pod that waits, of what it waited for before and waits for now.

    Between two tries to pull an image Kubernetes says that it waits, not what went wrong.

    >>> telling_reason("ErrImagePull: no such host", "ImagePullBackOff: Back-off pulling image")
    'ErrImagePull: no such host'
    """
    is_told = before.startswith(_FAILED_PULL) and now.startswith(_WAITS_TO_PULL)
    return before if is_told else now


def _all_is_out(pod: Any, containers: dict[str, Any], now: datetime) -> bool:
    """Whether the training has ended and its agent has uploaded everything.

    The agent ends after the training. As a native sidecar it stays until Kubernetes tells it to
    go, and other containers of the study's may hold that up: there the training's container ends
    after the agent's work, unless it was killed or told to go.
    """
    if TRAINING not in containers:
        return False
    sidecars = [item for item in pod.status.init_container_statuses or () if item.name == AGENT]
    if not sidecars:
        return AGENT in containers or all(
            item.name != AGENT for item in pod.status.container_statuses
        )
    end = containers[TRAINING]
    was_killed = end.reason == "OOMKilled" or end.exit_code in PREEMPTED_EXIT_CODES
    if not was_killed and pod.metadata.deletion_timestamp is None:
        return True
    return bool(_terminated(sidecars)) or (
        end.finished_at is not None and (now - end.finished_at).total_seconds() > UPLOAD_SECONDS
    )


def _is_lost(pod: Any, now: datetime) -> bool:
    told: datetime | None = pod.metadata.deletion_timestamp
    # The deletion timestamp includes the grace period.
    return told is not None and (now - told).total_seconds() > LOST_SECONDS


def _terminated(statuses: Iterable[Any] | None) -> dict[str, Any]:
    return {
        item.name: item.state.terminated
        for item in statuses or ()
        if item.state is not None and item.state.terminated is not None
    }


def _has_started(statuses: Iterable[Any] | None) -> bool:
    return any(
        item.state is not None and (item.state.running or item.state.terminated)
        for item in statuses or ()
        if item.name == TRAINING
    )


def _read_end(pod: Any, containers: dict[str, Any]) -> PodStatus:
    training = containers.get(TRAINING)
    exit_code = training.exit_code if training is not None else None
    if pod.status.reason or pod.metadata.deletion_timestamp is not None:
        # Evicted, preempted by a pod with higher priority, or ended with its node.
        told = ": ".join(filter(None, (pod.status.reason, pod.status.message)))
        return PodStatus(
            Phase.ENDED,
            told or "its pod was deleted",
            Outcome.PREEMPTED,
            exit_code,
            cause=Cause.EVICTED,
        )
    if training is None:
        reason = "its pod ended before the training started"
        return PodStatus(Phase.ENDED, reason, Outcome.PREEMPTED, cause=Cause.NOT_STARTED)
    if training.reason in LOST_REASONS or _is_unseen(pod, training):
        reason = "its container was lost because its node restarted"
        return PodStatus(Phase.ENDED, reason, Outcome.PREEMPTED, cause=Cause.NODE_LOST)
    if training.reason == "OOMKilled":
        limit = _memory_limit(pod)
        reason = f"out of memory: it needed more than {limit}" if limit else "out of memory"
        return PodStatus(Phase.ENDED, reason, Outcome.FAILED, exit_code, cause=Cause.OUT_OF_MEMORY)
    if exit_code in PREEMPTED_EXIT_CODES:
        return PodStatus(
            Phase.ENDED,
            f"killed by signal {exit_code - 128}",
            Outcome.PREEMPTED,
            exit_code,
            cause=Cause.KILLED,
        )
    if exit_code:
        reason = f"exit code {exit_code}"
        return PodStatus(
            Phase.ENDED, reason, Outcome.FAILED, exit_code, cause=Cause.TRAINING_ERROR
        )
    # The training ended well. If its agent did not report that, it resumes from its checkpoint.
    reason = "its agent did not report how the training ended"
    return PodStatus(Phase.ENDED, reason, Outcome.PREEMPTED, exit_code, cause=Cause.AGENT_LOST)


def _is_unseen(pod: Any, training: Any) -> bool:
    """Whether the exit code means that nobody observed the end, not even the agent.

    An agent that outlives the training says how that ended, and then ends by itself.
    """
    statuses = (
        *(pod.status.container_statuses or ()),
        *(pod.status.init_container_statuses or ()),
    )
    agent = _terminated(statuses).get(AGENT)
    return training.exit_code == UNSEEN_EXIT_CODE and (
        agent is not None
        and (
            agent.reason in LOST_REASONS
            or agent.exit_code in {UNSEEN_EXIT_CODE, *PREEMPTED_EXIT_CODES}
        )
    )


def _memory_limit(pod: Any) -> str | None:
    for container in pod.spec.containers:
        if container.name == TRAINING and container.resources and container.resources.limits:
            limit: str | None = container.resources.limits.get("memory")
            return limit
    return None


def _failure_before(pod: Any) -> PodStatus | None:
    """How an init container failed, unless the pod was deleted."""
    has_started = _has_started(pod.status.container_statuses)
    if pod.status.reason or pod.metadata.deletion_timestamp is not None or has_started:
        return None
    for name, end in _terminated(pod.status.init_container_statuses).items():
        if name != AGENT and end.exit_code:
            return _read_failure(name, end, _memory_limit(pod))
    return None


def _read_failure(name: str, end: Any, memory: str | None) -> PodStatus:
    said = (end.message or "").strip()
    work = _WORK.get(name, f"the init container {name}")
    if name != RESTORE and end.reason == "OOMKilled":
        reason = f"out of memory: {work} needed more than {memory or 'it had'}"
        return PodStatus(Phase.ENDED, reason, Outcome.FAILED, cause=Cause.OUT_OF_MEMORY, said=said)
    told = _last_words(said)
    reason = f"{work} failed: {told}" if told else f"{work} failed"
    # Restoring is the platform's work and is tried again; the rest is the study's own.
    is_preempted = (
        name == RESTORE or end.reason in LOST_REASONS or end.exit_code in PREEMPTED_EXIT_CODES
    )
    outcome = Outcome.PREEMPTED if is_preempted else Outcome.FAILED
    return PodStatus(Phase.ENDED, reason, outcome, cause=Cause.NOT_STARTED, said=said)


def _last_words(said: str) -> str:
    """The last line that pip marks as an error, or else the last line."""
    lines = said.splitlines()
    errors = [line for line in lines if line.lower().startswith("error:")]
    return (errors or lines or [""])[-1]


def _what_it_waits_for(status: Any) -> tuple[str, bool]:
    """Kubernetes' reason for a pending pod, and whether waiting cannot help."""
    for item in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        waiting = item.state.waiting if item.state is not None else None
        if waiting is not None and waiting.reason not in ("PodInitializing", None):
            told = ": ".join(filter(None, (waiting.reason, waiting.message)))
            return told, waiting.reason in HOPELESS and _TIMED_OUT not in told
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return ": ".join(filter(None, (condition.reason, condition.message))), False
    for item in status.init_container_statuses or ():
        if item.name in _WORK and item.state is not None and item.state.running:
            return _WORK[item.name], False
    return "its containers are being started", False


def image_digest(pod: Any) -> str | None:
    """Digest of the training's image; None where the cluster does not report it."""
    for status in (pod.status.container_statuses if pod is not None else None) or ():
        if status.name == TRAINING and "sha256:" in (status.image_id or ""):
            return "sha256:" + str(status.image_id).rpartition("sha256:")[2]
    return None
