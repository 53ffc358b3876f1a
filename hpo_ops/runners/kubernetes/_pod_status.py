"""Reads from a pod's status whether its segment is pending or running, or how and why it ended.

A segment is one uninterrupted execution of a trial.
"""

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
"""Exit codes of processes that were ended by SIGINT, SIGKILL or SIGTERM, as in an eviction."""
LOST_SECONDS = 30.0
"""Seconds after the grace period of a deleted pod from which its node is regarded as lost."""
LOST_REASONS = {"Unknown", "ContainerStatusUnknown"}
"""Kubernetes' reasons for containers whose end is unknown because their node restarted."""
UNSEEN_EXIT_CODE = 255
"""Exit code that containerd reports for a container whose end it did not observe."""
HOPELESS = {"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
"""Kubernetes' reasons for a pending pod that indicate a permanent problem."""
_TIMED_OUT = "timed out"
"""Text in Kubernetes' message that marks a problem as temporary despite a reason in `HOPELESS`.

A new node, for example, cannot read secrets at first.
"""
_FAILED_PULL, _WAITS_TO_PULL = "ErrImagePull", "ImagePullBackOff"
_WORK = {RESTORE: "restoring", PACKAGES: "installing packages"}
"""The work of each of the platform's init containers, for messages."""


class Phase(StrEnum):
    """The phase of a segment's pod: pending, running or ended."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True)
class PodStatus:
    """The state of a segment's pod.

    Attributes:
        phase: The phase of the pod: pending, running or ended.
        reason: Why the pod is pending, or how it ended, as a sentence for people.
        outcome: How the segment ended, for use if its agent has not reported an outcome; None if
            the pod has not ended.
        exit_code: Exit code of the training; None if it is unknown.
        cause: Why the segment ended, for programs.
        is_hopeless: Whether the pod is pending because of a permanent problem.
        is_lost: Whether the node has not confirmed the deletion of the pod in time.
        said: The last lines of output of an init container that failed; empty if none failed.
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
        """How the segment ended according to its pod; preempted if `outcome` is None."""
        return SegmentResult(
            outcome=self.outcome or Outcome.PREEMPTED,
            reason=self.reason,
            exit_code=self.exit_code,
            cause=self.cause,
        )


GONE = PodStatus(Phase.ENDED, "its pod was deleted", Outcome.PREEMPTED, cause=Cause.EVICTED)


def read_status(pod: Any, now: datetime) -> PodStatus:
    """Reads the status of a segment's pod.

    Args:
        pod: The pod, as the synchronous or the asynchronous client returns it; None if the pod
            does not exist.
        now: The current time, by which pods whose deletion takes too long are detected.
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
            # A missing secret is no failure then: it may have been deleted before the pod.
            return PodStatus(Phase.PENDING, "its pod is being deleted")
        reason, is_hopeless = _what_it_waits_for(status)
        return PodStatus(Phase.PENDING, reason, is_hopeless=is_hopeless)
    return PodStatus(Phase.RUNNING)


def telling_reason(before: str, now: str) -> str:
    """Returns the more informative of the previous and the current reason of a pending pod.

    Between two attempts to pull an image, Kubernetes reports only that it waits. The previous
    reason, which contains the error, is returned then.

    >>> telling_reason("ErrImagePull: no such host", "ImagePullBackOff: Back-off pulling image")
    'ErrImagePull: no such host'
    """
    is_told = before.startswith(_FAILED_PULL) and now.startswith(_WAITS_TO_PULL)
    return before if is_told else now


def _all_is_out(pod: Any, containers: dict[str, Any], now: datetime) -> bool:
    """Checks whether a pod's training has ended and the agent has uploaded everything.

    An agent in an ordinary container exits when it has uploaded everything. An agent that is a
    native sidecar runs until Kubernetes ends it, which may be after all other containers.
    With such an agent, the training's container waits for the uploads before it exits, unless it
    was killed or the pod is being deleted. In these two cases the agent must have ended, or
    `UPLOAD_SECONDS` must have passed.
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
    # The exit code is 0. If the agent reported no outcome, the trial resumes from its checkpoint.
    reason = "its agent did not report how the training ended"
    return PodStatus(Phase.ENDED, reason, Outcome.PREEMPTED, exit_code, cause=Cause.AGENT_LOST)


def _is_unseen(pod: Any, training: Any) -> bool:
    """Checks whether the container runtime did not observe the end of the training.

    Besides the training's exit code, this requires that the agent was lost or killed, too: an
    agent that outlives the training reports how the training ended.
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
    """Returns the status of a pod whose init container failed; None if no init container failed.

    The result is also None if the training has started, or the pod was evicted or deleted.
    """
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
    # A failed restore is the platform's fault and is repeated; other failures are the study's.
    is_preempted = (
        name == RESTORE or end.reason in LOST_REASONS or end.exit_code in PREEMPTED_EXIT_CODES
    )
    outcome = Outcome.PREEMPTED if is_preempted else Outcome.FAILED
    return PodStatus(Phase.ENDED, reason, outcome, cause=Cause.NOT_STARTED, said=said)


def _last_words(said: str) -> str:
    """Returns the last line of `said` that starts with ``error:``, or else its last line."""
    lines = said.splitlines()
    errors = [line for line in lines if line.lower().startswith("error:")]
    return (errors or lines or [""])[-1]


def _what_it_waits_for(status: Any) -> tuple[str, bool]:
    """Returns why a pod is pending, and whether the reason is a permanent problem."""
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
    """Returns the digest of the training's image, or None if the pod's status has none."""
    for status in (pod.status.container_statuses if pod is not None else None) or ():
        if status.name == TRAINING and "sha256:" in (status.image_id or ""):
            return "sha256:" + str(status.image_id).rpartition("sha256:")[2]
    return None
