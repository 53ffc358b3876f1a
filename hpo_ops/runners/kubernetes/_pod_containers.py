"""The containers of a segment's pod: the training, the installation of packages, the agent."""

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
"""Directory that all containers share."""
AGENT_FOLDER = "/hpo-agent"
"""Directory that the training does not have: what it must not be able to change."""
_INSIDE = Workspace(Path(WORKSPACE))
"""The file names of the workspace, as the containers see them."""


def _training_mounts(plan: SegmentPod) -> list[Spec]:
    """Mounts of the containers that run the training's image."""
    workspace = {"name": WORKSPACE_VOLUME, "mountPath": WORKSPACE}
    if not plan.pod.read_only_root:
        return [workspace]
    return [workspace, {"name": TRAINING_TEMPORARY, "mountPath": "/tmp"}]  # noqa: S108  a path in the pod


def training_container(plan: SegmentPod, shares: int) -> Spec:
    """The container of the training.

    Args:
        plan: The pod's plan.
        shares: Into how many shares each GPU of the pool is cut.
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
    """The init container that installs packages, with the training's resources except GPUs."""
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
    """The init container that restores code and checkpoint."""
    return {**_platform_container(plan, RESTORE), "args": ["restore"]}


def agent_container(plan: SegmentPod) -> Spec:
    """The container of the agent, which runs beside the training."""
    return {**_platform_container(plan, AGENT), "args": ["run"]}


def _allowed_classes(plan: SegmentPod) -> dict[str, str]:
    """Allows the agent to import the curve predictor that the gateway allowed for this study."""
    order = plan.assignment.forecasts
    if order is None or ":" not in order.predictor:
        return {}
    return {ALLOWED_CLASSES: order.predictor}


def _platform_container(plan: SegmentPod, name: str) -> Spec:
    """A container of the platform: only such containers get the token and the store's keys."""
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
    """Tells training script and agent whether the agent outlives the training by itself."""
    return {SIDECAR_VARIABLE: "1"} if plan.has_native_sidecars else {}


def _literally(value: str) -> str:
    """A value of an environment variable with ``$`` escaped.

    Kubernetes replaces ``$(NAME)`` by another variable of the container: a parameter with the
    value ``$(HPO_TOKEN)`` would show the agent's token to the training.
    """
    return value.replace("$", "$$")


def _variables(values: Mapping[str, str]) -> list[Spec]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _torchrun(resources: Resources) -> dict[str, str]:
    """Variables for torchrun and similar launchers, where a pod has several GPUs."""
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
