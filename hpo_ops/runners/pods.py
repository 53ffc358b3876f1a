"""A segment as a pod: what Kubernetes is asked for.

A pod has an init container that restores, one that installs packages where the code asks for some,
the training container, and the agent beside it; they share the workspace. What is asked for comes
from three places, each over the one before: the template of the pool, what is generated here, and
what the study says under ``pod``.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpo_ops.config import Pod, Resources
from hpo_ops.isolation.allowlist import VARIABLE as ALLOWED_CLASSES
from hpo_ops.protocol import DIRECTORY_VARIABLE, SIDECAR_VARIABLE, Assignment

Spec = dict[str, Any]

MANAGED_BY = {"app.kubernetes.io/managed-by": "hpo-ops"}
STUDY_LABEL, RUN_LABEL = "hpo-ops/study", "hpo-ops/run"
TRIAL_LABEL, SEGMENT_LABEL = "hpo-ops/trial", "hpo-ops/segment"
SHARES_ANNOTATION = "hpo-ops/gpu-shares"
"""On a template: into how many shares the GPUs of its pool are cut."""
POOL_LABEL = "hpo-ops/pool"
"""On a node: the pool that it belongs to."""
GPU = "nvidia.com/gpu"

TRAINING, AGENT, RESTORE, PACKAGES = "base", "agent", "restore", "packages"
"""Containers; Airflow calls the one that does the work ``base``."""
WORKSPACE = "/hpo"
UPLOAD_SECONDS = 60
"""Time for the agent to get the last checkpoint out, after the training has left."""
AGENT_IMAGE_VARIABLE, TRAINING_IMAGE_VARIABLE = "HPO_AGENT_IMAGE", "HPO_TRAINING_IMAGE"
AGENT_IMAGE = "hpo-ops:latest"


@dataclass(frozen=True, kw_only=True)
class SegmentPod:
    """What a segment's pod is to be.

    Attributes:
        assignment: What the training is told.
        study: The study's name.
        run_id: Its DAG run.
        key: The study's path in the store.
        command: The training command.
        image: Image of the training container.
        agent_image: Image with this package, for the containers around it.
        gateway_url: Where the agent finds the gateway.
        secret: Name of the Kubernetes secret with the segment's token and the store's keys.
        resources: What the training needs.
        pod: What the study says about its pods.
        environment: The study's variables for the training.
        code: Name of the code archive in the store; None where the image has the code.
        packages: What pip installs for the code, as its arguments; empty installs nothing.
        has_native_sidecars: Whether the cluster knows containers that run beside others
            (Kubernetes 1.29).
    """

    assignment: Assignment
    study: str
    run_id: str
    key: str
    command: str
    image: str
    agent_image: str
    gateway_url: str
    secret: str
    resources: Resources = field(default_factory=Resources)
    pod: Pod = field(default_factory=Pod)
    environment: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None
    packages: Sequence[str] = ()
    has_native_sidecars: bool = False

    @property
    def name(self) -> str:
        """A name that people can read; nothing depends on it."""
        plain = re.sub(r"[^a-z0-9-]+", "-", self.study.lower()).strip("-")[:35].strip("-")
        return f"hpo-{plain or 'study'}-{self.assignment.trial}-{self.assignment.segment[:8]}"

    @property
    def labels(self) -> dict[str, str]:
        """Who this pod is."""
        return {
            **trial_labels(self.study, self.run_id, self.assignment.trial),
            SEGMENT_LABEL: self.assignment.segment,
        }


def trial_labels(study: str, run_id: str, trial: int) -> dict[str, str]:
    """What all pods of a trial have in common.

    Args:
        study: The study's name.
        run_id: Its DAG run.
        trial: The trial's number.
    """
    return {
        **MANAGED_BY,
        STUDY_LABEL: label_value(study),
        RUN_LABEL: label_value(run_id),
        TRIAL_LABEL: str(trial),
    }


def agent_image(environment: Mapping[str, str]) -> str:
    """The platform's own image."""
    return environment.get(AGENT_IMAGE_VARIABLE) or AGENT_IMAGE


def training_image(environment: Mapping[str, str]) -> str:
    """The image of trainings whose study names none."""
    return environment.get(TRAINING_IMAGE_VARIABLE) or agent_image(environment)


def label_value(text: str) -> str:
    """Text as a label can have it; what has to be changed gets a hash to tell it apart."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", text).strip("._-")[:63].strip("._-")
    if plain == text:
        return plain
    return f"{plain[:54].strip('._-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}".strip("-")


def template_name(resources: Resources, pod: Pod) -> str:
    """The template to start from: the one named, or that of the pool."""
    return pod.template or f"trial_{resources.pool_name.replace('-', '_')}"


def build_pod(template: Spec, plan: SegmentPod) -> Spec:
    """The pod as Kubernetes takes it."""
    merged: Spec = merge(template, _generated(plan, shares_of(template)))
    merged = merge(merged, _overrides(plan))
    spec = merged["spec"]
    # Airflow takes the first container for the one that does the work.
    spec["containers"].sort(key=lambda container: container["name"] != TRAINING)
    return merged


def merge(base: Any, over: Any) -> Any:
    """One description over another: mappings key by key, lists of named things by name."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return {
            key: merge(base[key], over[key]) if key in base and key in over else value
            for key, value in {**base, **over}.items()
        }
    if isinstance(base, list) and isinstance(over, list):
        return _merge_lists(base, over)
    return over


def _merge_lists(base: list[Any], over: list[Any]) -> list[Any]:
    for key in ("name", "mountPath", "key", "containerPort"):
        if all(isinstance(item, Mapping) and key in item for item in (*base, *over)):
            later = {item[key]: item for item in over}
            earlier = {item[key] for item in base}
            return [
                *(merge(item, later[item[key]]) if item[key] in later else item for item in base),
                *(item for item in over if item[key] not in earlier),
            ]
    return over


def shares_of(template: Spec) -> int:
    """Into how many shares the GPUs of a template's pool are cut."""
    annotations = template.get("metadata", {}).get("annotations", {})
    return int(annotations.get(SHARES_ANNOTATION, 1))


def _generated(plan: SegmentPod, shares: int) -> Spec:
    agent = _agent_container(plan)
    restore = {**_platform_container(plan, RESTORE), "args": ["restore"]}
    native = plan.has_native_sidecars
    before = [restore, *([_packages_container(plan)] if plan.packages else [])]
    beside = {**agent, "restartPolicy": "Always"} if native else agent
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": plan.name,
            "labels": plan.labels,
            "annotations": {"hpo-ops/params": json.dumps(plan.assignment.params)},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": plan.pod.service_account is not None,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": (
                math.ceil(plan.assignment.grace_seconds) + UPLOAD_SECONDS
            ),
            "initContainers": [*before, beside] if native else before,
            "containers": [_training_container(plan, shares), *([] if native else [agent])],
            "volumes": [
                {"name": "hpo", "emptyDir": _empty_dir(plan.resources)},
                {"name": "dshm", "emptyDir": {"medium": "Memory"}},
            ],
        },
    }


def _empty_dir(resources: Resources) -> Spec:
    return {"sizeLimit": resources.storage} if resources.storage else {}


def _training_container(plan: SegmentPod, shares: int) -> Spec:
    environment = {
        DIRECTORY_VARIABLE: WORKSPACE,
        **_sidecar(plan),
        **_torchrun(plan.resources),
        **plan.environment,
    }
    container: Spec = {
        "name": TRAINING,
        "image": plan.image,
        # The shell comes with the agent: an image of any kind will do.
        "command": [f"{WORKSPACE}/bin/busybox", "sh", f"{WORKSPACE}/bin/run.sh"],
        "args": shlex.split(plan.command),
        "env": _variables(environment),
        "resources": _amounts(plan.resources, shares),
        "volumeMounts": [
            {"name": "hpo", "mountPath": WORKSPACE},
            {"name": "dshm", "mountPath": "/dev/shm"},  # noqa: S108, where torch's workers share
        ],
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    if plan.code is not None:
        container["workingDir"] = f"{WORKSPACE}/code"
    return container


def _packages_container(plan: SegmentPod) -> Spec:
    """Installs in the training's image, with what the training may use, but for its GPUs."""
    environment = {DIRECTORY_VARIABLE: WORKSPACE, **plan.environment}
    return {
        "name": PACKAGES,
        "image": plan.image,
        "command": ["python", f"{WORKSPACE}/bin/install.py"],
        "args": list(plan.packages),
        "workingDir": f"{WORKSPACE}/code",
        "env": _variables(environment),
        "resources": _amounts(plan.resources.model_copy(update={"gpu": 0.0}), 1),
        "volumeMounts": [{"name": "hpo", "mountPath": WORKSPACE}],
        "securityContext": {"allowPrivilegeEscalation": False},
        # pip's last words then stand in the pod's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _agent_container(plan: SegmentPod) -> Spec:
    return {**_platform_container(plan, AGENT), "args": ["run"]}


def _allowed_classes(plan: SegmentPod) -> dict[str, str]:
    """Allows the agent the predictor that the gateway's operator has allowed for this study."""
    order = plan.assignment.forecasts
    if order is None or ":" not in order.predictor:
        return {}
    return {ALLOWED_CLASSES: order.predictor}


def _platform_container(plan: SegmentPod, name: str) -> Spec:
    """A container of ours, which alone gets the token and the store's keys."""
    environment = {
        DIRECTORY_VARIABLE: WORKSPACE,
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
        "env": _variables(environment),
        "envFrom": [{"secretRef": {"name": plan.secret}}],
        "resources": {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"memory": "1Gi"},
        },
        "volumeMounts": [{"name": "hpo", "mountPath": WORKSPACE}],
        "securityContext": {"allowPrivilegeEscalation": False},
        # Why it failed then stands in the pod's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _sidecar(plan: SegmentPod) -> dict[str, str]:
    """Who leaves first, for the training's script and for the agent."""
    return {SIDECAR_VARIABLE: "1"} if plan.has_native_sidecars else {}


def _variables(values: Mapping[str, str]) -> list[Spec]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _torchrun(resources: Resources) -> dict[str, str]:
    """What torchrun and those like it read where a pod has several GPUs."""
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


def _overrides(plan: SegmentPod) -> Spec:
    pod = plan.pod
    spec: Spec = {}
    if pod.node_selector:
        spec["nodeSelector"] = dict(pod.node_selector)
    if pod.tolerations:
        spec["tolerations"] = [dict(item) for item in pod.tolerations]
    if pod.priority_class:
        spec["priorityClassName"] = pod.priority_class
    if pod.service_account:
        spec["serviceAccountName"] = pod.service_account
    if pod.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in pod.image_pull_secrets]
    metadata = {"namespace": pod.namespace} if pod.namespace else {}
    return {"metadata": metadata, "spec": merge(spec, _of_the_agent(plan))}


def _of_the_agent(plan: SegmentPod) -> Spec:
    """What the study says of a pod's spec; of the agent where it is, on whatever cluster."""
    said = dict(plan.pod.spec)
    here, there = ("initContainers", "containers")[:: 1 if plan.has_native_sidecars else -1]
    moved = [item for item in said.get(there, ()) if item["name"] == AGENT]
    if moved:
        said[there] = [item for item in said[there] if item["name"] != AGENT]
        said[here] = [*said.get(here, ()), *moved]
    return said
