"""Builds the containers of a segment's pod: training, package installation, restore and agent.

A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path

from hpo_ops.config import Resources
from hpo_ops.isolation.allowlist import VARIABLE as ALLOWED_CLASSES
from hpo_ops.protocol import (
    AGENT_DIRECTORY_VARIABLE,
    DIRECTORY_VARIABLE,
    SIDECAR_VARIABLE,
    Workspace,
)
from hpo_ops.runners.kubernetes._pod_names import (
    AGENT,
    AGENT_TEMPORARY,
    AGENT_VOLUME,
    GPU,
    PACKAGES,
    RESTORE,
    SHARED_MEMORY_VOLUME,
    TRAINING,
    TRAINING_TEMPORARY,
    WORKSPACE_VOLUME,
)
from hpo_ops.runners.kubernetes._segment_pod import SegmentPod, Spec

WORKSPACE = "/hpo"
"""Path at which all containers of the pod mount the shared workspace."""
AGENT_FOLDER = "/hpo-agent"
"""Path of the agent's own files, which is not mounted in the training container."""
_INSIDE = Workspace(Path(WORKSPACE))
"""The workspace with its paths inside the containers."""


def _training_mounts(plan: SegmentPod) -> list[Spec]:
    """Returns the volume mounts of the containers that run the training's image."""
    workspace = {"name": WORKSPACE_VOLUME, "mountPath": WORKSPACE}
    if not plan.pod.read_only_root:
        return [workspace]
    return [workspace, {"name": TRAINING_TEMPORARY, "mountPath": "/tmp"}]  # noqa: S108  a path in the pod


def training_container(plan: SegmentPod, shares: int) -> Spec:
    """Builds the container of the training.

    Args:
        plan: The pod's settings.
        shares: Number of shares into which each GPU of the pool is divided.
    """
    environment = {
        DIRECTORY_VARIABLE: WORKSPACE,
        **_sidecar(plan),
        **_torchrun(plan.resources),
        **plan.environment,
    }
    container: Spec = {
        "name": TRAINING,
        "image": plan.image,
        # The agent brings the shell, so that the image needs none.
        "command": [f"{_INSIDE.tools}/busybox", "sh", f"{_INSIDE.tools}/run.sh"],
        "args": shlex.split(plan.command),
        "env": _variables(environment),
        "resources": _amounts(plan.resources, shares),
        "volumeMounts": [
            *_training_mounts(plan),
            # PyTorch's data loaders share memory there.
            {"name": SHARED_MEMORY_VOLUME, "mountPath": "/dev/shm"},  # noqa: S108  a path in the pod
        ],
    }
    if plan.code is not None:
        container["workingDir"] = str(_INSIDE.code)
    return container


def packages_container(plan: SegmentPod) -> Spec:
    """Builds the init container that installs the packages which the study's code requires.

    It has the image, CPU and memory of the training container, but no GPUs.
    """
    environment = {DIRECTORY_VARIABLE: WORKSPACE, **plan.environment}
    return {
        "name": PACKAGES,
        "image": plan.image,
        "command": ["python", f"{_INSIDE.tools}/package_install.py"],
        "args": list(plan.packages),
        "workingDir": str(_INSIDE.code),
        "env": _variables(environment),
        "resources": _amounts(plan.resources.model_copy(update={"gpu": 0.0}), 1),
        "volumeMounts": _training_mounts(plan),
        # The pod's status then has the end of pip's output.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def restore_container(plan: SegmentPod) -> Spec:
    """Builds the init container that restores the study's code and the trial's checkpoint."""
    return {**_platform_container(plan, RESTORE), "args": ["restore"]}


def agent_container(plan: SegmentPod) -> Spec:
    """Builds the container of the agent, which runs beside the training."""
    return {**_platform_container(plan, AGENT), "args": ["run"]}


def _allowed_classes(plan: SegmentPod) -> dict[str, str]:
    """Returns the environment variables that let the agent import a user's curve predictor.

    The gateway has already allowed this class, which predicts learning curves. No variable is
    needed if the assignment requests no forecasts or uses a built-in predictor.
    """
    order = plan.assignment.forecasts
    if order is None or ":" not in order.predictor:
        return {}
    return {ALLOWED_CLASSES: order.predictor}


def _platform_container(plan: SegmentPod, name: str) -> Spec:
    """Builds a container of the platform, which gets the segment's token and the store's keys."""
    environment = {
        DIRECTORY_VARIABLE: WORKSPACE,
        AGENT_DIRECTORY_VARIABLE: AGENT_FOLDER,
        "HPO_ASSIGNMENT": plan.assignment.to_json(),
        "HPO_GATEWAY_URL": plan.gateway_url,
        "HPO_STUDY_KEY": plan.key,
        "HPO_CODE": plan.code or "",
        **_allowed_classes(plan),
        **_sidecar(plan),
    }
    return {
        "name": name,
        "image": plan.agent_image,
        "command": ["python", "-m", "hpo_ops.agent"],
        "env": _variables({name: _literally(value) for name, value in environment.items()}),
        "envFrom": [{"secretRef": {"name": plan.secret}}],
        "resources": {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"memory": "1Gi"},
        },
        "volumeMounts": [
            {"name": WORKSPACE_VOLUME, "mountPath": WORKSPACE},
            {"name": AGENT_VOLUME, "mountPath": AGENT_FOLDER},
            {"name": AGENT_TEMPORARY, "mountPath": "/tmp"},  # noqa: S108, the root is read-only
        ],
        # The pod's status then has the reason of a failure.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _sidecar(plan: SegmentPod) -> dict[str, str]:
    """Returns the environment variables that tell a container that the agent is a native sidecar.

    Kubernetes keeps a native sidecar running until the other containers have ended. No variable
    is set if the cluster has no native sidecars.
    """
    return {SIDECAR_VARIABLE: "1"} if plan.has_native_sidecars else {}


def _literally(value: str) -> str:
    """Returns the value of an environment variable with ``$`` escaped.

    Kubernetes replaces ``$(NAME)`` with another variable of the container. Without escaping, a
    hyperparameter with the value ``$(HPO_TOKEN)`` would reveal the agent's token to the training.
    """
    return value.replace("$", "$$")


def _variables(values: Mapping[str, str]) -> list[Spec]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _torchrun(resources: Resources) -> dict[str, str]:
    """Returns environment variables for launchers such as torchrun; none for fewer than 2 GPUs."""
    count = int(resources.gpu)
    if count < 2:
        return {}
    return {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "NPROC_PER_NODE": str(count),
        "PET_NNODES": "1",
        "PET_NPROC_PER_NODE": str(count),
    }


def _amounts(resources: Resources, shares: int) -> Spec:
    requests = {"cpu": resources.cpu, "memory": resources.memory}
    limits = {"memory": resources.memory}
    if resources.storage:
        requests["ephemeral-storage"] = limits["ephemeral-storage"] = resources.storage
    if resources.gpu:
        count = math.ceil(round(resources.gpu * shares, 6))
        requests[GPU] = limits[GPU] = str(count)
    return {"requests": requests, "limits": limits}
