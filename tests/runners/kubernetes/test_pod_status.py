from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kubernetes import client as k8s

from hpo_ops.protocol import Cause, Outcome
from hpo_ops.runners.kubernetes._pod_status import (
    LOST_SECONDS,
    Phase,
    PodStatus,
    image_digest,
    read_status,
    telling_reason,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def ended(exit_code: int, reason: str = "Error", message: str = "") -> k8s.V1ContainerState:
    return k8s.V1ContainerState(
        terminated=k8s.V1ContainerStateTerminated(
            exit_code=exit_code, reason=reason, message=message
        )
    )


RUNNING = k8s.V1ContainerState(running=k8s.V1ContainerStateRunning())


def waits(reason: str, message: str = "") -> k8s.V1ContainerState:
    return k8s.V1ContainerState(
        waiting=k8s.V1ContainerStateWaiting(reason=reason, message=message)
    )


def a_pod(
    phase: str,
    *,
    base: k8s.V1ContainerState | None = None,
    agent: k8s.V1ContainerState | None = None,
    restore: k8s.V1ContainerState | None = None,
    packages: k8s.V1ContainerState | None = None,
    sidecar: k8s.V1ContainerState | None = None,
    told_at: datetime | None = None,
    conditions: list[k8s.V1PodCondition] | None = None,
    **status: Any,
) -> k8s.V1Pod:
    def statuses(**states: k8s.V1ContainerState | None) -> list[k8s.V1ContainerStatus]:
        return [
            k8s.V1ContainerStatus(
                name=name, state=state, image="i", image_id="i", ready=False, restart_count=0
            )
            for name, state in states.items()
            if state is not None
        ]

    limits = k8s.V1ResourceRequirements(limits={"memory": "16Gi"})
    return k8s.V1Pod(
        metadata=k8s.V1ObjectMeta(name="p", deletion_timestamp=told_at),
        spec=k8s.V1PodSpec(containers=[k8s.V1Container(name="base", resources=limits)]),
        status=k8s.V1PodStatus(
            phase=phase,
            container_statuses=statuses(base=base, agent=agent),
            init_container_statuses=[
                *statuses(restore=restore, packages=packages),
                *statuses(agent=sidecar),  # a native one
            ],
            conditions=conditions,
            **status,
        ),
    )


def read(*arguments: Any, **options: Any) -> PodStatus:
    return read_status(a_pod(*arguments, **options), NOW)


def test_a_pod_is_at_work_until_its_agent_has_ended() -> None:
    assert read("Running", base=RUNNING, agent=RUNNING).phase is Phase.RUNNING
    # The training is over, but its last checkpoint is still on its way.
    assert read("Running", base=ended(0, "Completed"), agent=RUNNING).phase is Phase.RUNNING
    over = read("Succeeded", base=ended(0, "Completed"), agent=ended(0, "Completed"))
    assert over.phase is Phase.ENDED


@pytest.mark.parametrize(
    ("options", "outcome", "cause", "reason"),
    [
        ({"base": ended(1)}, Outcome.FAILED, Cause.TRAINING_ERROR, "exit code 1"),
        (
            {"base": ended(137, "OOMKilled")},
            Outcome.FAILED,
            Cause.OUT_OF_MEMORY,
            "out of memory: it needed more than 16Gi",
        ),
        ({"base": ended(143)}, Outcome.PREEMPTED, Cause.KILLED, "killed by signal 15"),
        ({"base": ended(137)}, Outcome.PREEMPTED, Cause.KILLED, "killed by signal 9"),
        (
            {"base": ended(1), "reason": "Evicted", "message": "low on disk"},
            Outcome.PREEMPTED,
            Cause.EVICTED,
            "Evicted: low on disk",
        ),
        ({"reason": "NodeShutdown"}, Outcome.PREEMPTED, Cause.EVICTED, "NodeShutdown"),
        (
            {"base": ended(1), "told_at": NOW},
            Outcome.PREEMPTED,
            Cause.EVICTED,
            "its pod was deleted",
        ),
        (
            {"restore": ended(1, message="a\nno such bucket\n")},
            Outcome.PREEMPTED,
            Cause.NOT_STARTED,
            "restoring failed: no such bucket",
        ),
        (
            {"base": ended(0)},
            Outcome.PREEMPTED,
            Cause.AGENT_LOST,
            "its agent did not report how the training ended",
        ),
        (
            {"base": ended(255, "Unknown")},
            Outcome.PREEMPTED,
            Cause.NODE_LOST,
            "its container was lost because its node restarted",
        ),
    ],
)
def test_whose_fault_an_end_was(
    options: dict[str, Any], outcome: Outcome, cause: Cause, reason: str
) -> None:
    status = read("Failed", agent=ended(0), **options)
    assert (status.phase, status.outcome, status.reason) == (Phase.ENDED, outcome, reason)
    assert status.result.cause is cause


@pytest.mark.parametrize(
    ("agent", "outcome"),
    [
        (ended(0), Outcome.FAILED),
        (ended(1), Outcome.FAILED),
        (ended(255), Outcome.PREEMPTED),
        (ended(255, "Unknown"), Outcome.PREEMPTED),
        (ended(137), Outcome.PREEMPTED),
    ],
)
def test_an_exit_code_that_containerd_made_up_is_no_failure(
    agent: k8s.V1ContainerState, outcome: Outcome
) -> None:
    assert read("Failed", base=ended(255), agent=agent).outcome is outcome


def test_a_pod_that_is_gone_was_preempted() -> None:
    status = read_status(None, NOW)
    assert (status.phase, status.outcome) == (Phase.ENDED, Outcome.PREEMPTED)


def test_a_pod_on_a_node_that_does_not_answer_is_given_up() -> None:
    leaving = NOW - timedelta(seconds=LOST_SECONDS - 1)
    assert read("Running", base=RUNNING, agent=RUNNING, told_at=leaving).phase is Phase.RUNNING
    silent = NOW - timedelta(seconds=LOST_SECONDS + 1)
    status = read("Running", base=RUNNING, agent=RUNNING, told_at=silent)
    assert (status.phase, status.outcome, status.is_lost) == (Phase.ENDED, Outcome.PREEMPTED, True)


def test_a_pod_that_is_told_to_go_while_it_starts_is_no_hopeless_case() -> None:
    missing = waits("CreateContainerConfigError", 'secret "hpo-1" not found')
    assert not read("Pending", base=missing, told_at=NOW).is_hopeless


def test_what_a_pod_waits_for_is_told_in_kubernetes_words() -> None:
    condition = k8s.V1PodCondition(
        type="PodScheduled", status="False", reason="Unschedulable", message="0/4 nodes have a GPU"
    )
    status = read("Pending", conditions=[condition])
    assert (status.phase, status.reason) == (Phase.PENDING, "Unschedulable: 0/4 nodes have a GPU")
    pulling = read("Pending", base=waits("ImagePullBackOff", "no such image"))
    assert pulling.reason == "ImagePullBackOff: no such image"
    assert not pulling.is_hopeless
    assert read("Pending", base=waits("InvalidImageName")).is_hopeless
    config = "CreateContainerConfigError"
    assert read("Pending", base=waits(config, 'secret "mine" not found')).is_hopeless
    slow = "failed to sync secret cache: timed out waiting for the condition"
    assert not read("Pending", base=waits(config, slow)).is_hopeless
    # The agent runs already, the training's image is still being pulled.
    half = read("Running", base=waits("ContainerCreating"), agent=RUNNING)
    assert half.phase is Phase.PENDING


def test_what_went_wrong_with_an_image_is_told_between_two_tries_to_pull_it() -> None:
    wrong, waits_on = "ErrImagePull: no such host", "ImagePullBackOff: Back-off pulling image"
    assert telling_reason("", waits_on) == waits_on
    assert telling_reason(wrong, waits_on) == wrong
    assert telling_reason(wrong, "its containers are being started").startswith("its containers")


NO_SUCH = """ERROR: Could not find a version that satisfies the requirement nosuch
ERROR: No matching distribution found for nosuch
hint: see above
"""


@pytest.mark.parametrize(
    ("end", "outcome", "reason"),
    [
        (
            ended(1, message=NO_SUCH),
            Outcome.FAILED,
            "installing packages failed: ERROR: No matching distribution found for nosuch",
        ),
        (ended(1), Outcome.FAILED, "installing packages failed"),
        (ended(143), Outcome.PREEMPTED, "installing packages failed"),
        (ended(255, "Unknown"), Outcome.PREEMPTED, "installing packages failed"),
        (
            ended(137, "OOMKilled"),
            Outcome.FAILED,
            "out of memory: installing packages needed more than 16Gi",
        ),
    ],
)
def test_packages_that_cannot_be_had_are_the_codes_fault(
    end: k8s.V1ContainerState, outcome: Outcome, reason: str
) -> None:
    status = read("Failed", restore=ended(0), packages=end, base=waits("PodInitializing"))
    assert (status.phase, status.outcome, status.reason) == (Phase.ENDED, outcome, reason)
    assert status.said == (end.terminated.message or "").strip()
    assert (status.cause is Cause.OUT_OF_MEMORY) is (end.terminated.reason == "OOMKilled")


def test_a_pod_that_is_told_to_go_while_it_installs_was_preempted() -> None:
    status = read("Failed", restore=ended(0), packages=ended(1), told_at=NOW)
    assert (status.outcome, status.reason) == (Outcome.PREEMPTED, "its pod was deleted")


def test_what_a_pod_does_before_the_training_is_told() -> None:
    status = read("Pending", restore=ended(0), packages=RUNNING, base=waits("PodInitializing"))
    assert (status.phase, status.reason) == (Phase.PENDING, "installing packages")


@pytest.mark.parametrize(
    ("image_id", "digest"),
    [
        ("docker-pullable://team/model@sha256:12ab", "sha256:12ab"),
        ("sha256:12ab", "sha256:12ab"),
        ("i", None),
    ],
)
def test_a_pod_says_what_the_name_of_its_image_stood_for(
    image_id: str, digest: str | None
) -> None:
    pod = a_pod("Succeeded", base=ended(0, "Completed"), agent=ended(0, "Completed"))
    for status in pod.status.container_statuses:
        status.image_id = image_id if status.name == "base" else "sha256:of-the-agent"
    assert image_digest(pod) == digest
    assert image_digest(None) is None


def test_a_native_sidecar_has_everything_out_when_the_training_has_left() -> None:
    """It stays until it is told to go, which a container of the study's may hold up."""
    for code in (0, 1):
        pod = a_pod("Running", base=ended(code), sidecar=RUNNING)
        assert read_status(pod, NOW).phase is Phase.ENDED


@pytest.mark.parametrize(
    ("base", "told_at"),
    [(ended(137, "OOMKilled"), None), (ended(143), None), (ended(0), NOW)],
)
@pytest.mark.parametrize("state", [RUNNING, waits("CrashLoopBackOff")])
def test_a_native_sidecar_whose_training_was_killed_or_told_to_go_is_waited_for(
    base: k8s.V1ContainerState, told_at: datetime | None, state: k8s.V1ContainerState
) -> None:
    """It may still be bringing the last checkpoint home, or be started again to do so."""
    base.terminated.finished_at = NOW
    pod = a_pod("Running", base=base, sidecar=state, told_at=told_at)
    assert read_status(pod, NOW).phase is Phase.RUNNING
    assert read_status(pod, NOW + timedelta(seconds=61)).phase is Phase.ENDED
    over = a_pod("Running", base=base, sidecar=ended(0), told_at=told_at)
    assert read_status(over, NOW).phase is Phase.ENDED
