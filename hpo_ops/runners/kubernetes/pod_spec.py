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
from hpo_ops.config.pod_policy import PodPolicy
from hpo_ops.isolation.allowlist import VARIABLE as ALLOWED_CLASSES
from hpo_ops.protocol import (
    AGENT_DIRECTORY_VARIABLE,
    DIRECTORY_VARIABLE,
    SIDECAR_VARIABLE,
    Assignment,
)
from hpo_ops.runners.kubernetes.node_terms import join_terms
from hpo_ops.runners.kubernetes.pod_admission import PodRefusedError, find_refusals
from hpo_ops.runners.kubernetes.pod_names import (
    AGENT,
    AGENT_TEMPORARY,
    AGENT_VOLUME,
    GPU,
    KEY_LABEL,
    MANAGED_BY,
    PACKAGES,
    RESTORE,
    RUN_LABEL,
    SEGMENT_LABEL,
    SHARED_MEMORY_VOLUME,
    SHARES_ANNOTATION,
    STUDY_LABEL,
    TRAINING,
    TRAINING_TEMPORARY,
    TRIAL_LABEL,
    WORKSPACE_VOLUME,
)
from hpo_ops.runners.kubernetes.pod_security import harden
from hpo_ops.runners.kubernetes.pod_verification import check_built

Spec = dict[str, Any]

WORKSPACE = "/hpo"
AGENT_FOLDER = "/hpo-agent"
"""Only in the agent's containers: what the training must not be able to change."""
UPLOAD_SECONDS = 60
"""Time for the agent to get the last checkpoint out, after the training has left."""


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
        policy: What the operator lets studies ask of their pods.
        names_image: Whether the image is the study's own choice, not the platform's.
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
    policy: PodPolicy = field(default_factory=PodPolicy)
    names_image: bool = True
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
            **trial_labels(self.study, self.run_id, self.assignment.trial, key=self.key),
            SEGMENT_LABEL: self.assignment.segment,
        }


def trial_labels(study: str, run_id: str, trial: int, *, key: str) -> dict[str, str]:
    """What all pods of a trial have in common.

    Args:
        study: The study's name.
        run_id: Its DAG run.
        trial: The trial's number.
        key: The study's key; other studies may have the same name and run id.
    """
    return {
        **MANAGED_BY,
        STUDY_LABEL: label_value(study),
        RUN_LABEL: label_value(run_id),
        KEY_LABEL: label_value(key),
        TRIAL_LABEL: str(trial),
    }


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
    """The pod as Kubernetes takes it.

    Raises:
        PodRefusedError: The study asks for what the operator's policy does not let it have.
    """
    if refusals := find_refusals(
        plan.pod,
        plan.policy,
        image=plan.image if plan.names_image else None,
        environment=plan.environment,
        template=template_name(plan.resources, plan.pod),
    ):
        raise PodRefusedError(refusals)
    generated = _generated(plan, shares_of(template))
    platform: Spec = merge(_with_agent_in_place(template, plan), generated)
    built: Spec = merge(platform, _overrides(plan))
    check_built(merge(platform, _granted(plan)), built, plan.policy)
    try:
        spec = join_terms(platform["spec"], built["spec"])
    except ValueError as error:
        raise PodRefusedError([f"pod.spec.{error}"]) from error
    spec = harden(
        spec,
        user=plan.pod.run_as_user,
        may_be_root=plan.policy.root,
        is_root_read_only=plan.pod.read_only_root,
    )
    # Airflow takes the first container for the one that does the work.
    spec["containers"].sort(key=lambda container: container["name"] != TRAINING)
    return {**built, "spec": spec}


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
            "automountServiceAccountToken": (
                plan.pod.service_account is not None and plan.policy.service_account_token
            ),
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": (
                math.ceil(plan.assignment.grace_seconds) + UPLOAD_SECONDS
            ),
            "initContainers": [*before, beside] if native else before,
            "containers": [_training_container(plan, shares), *([] if native else [agent])],
            "volumes": [
                {"name": WORKSPACE_VOLUME, "emptyDir": _empty_dir(plan.resources)},
                {"name": AGENT_VOLUME, "emptyDir": {}},
                {"name": SHARED_MEMORY_VOLUME, "emptyDir": {"medium": "Memory"}},
                {"name": AGENT_TEMPORARY, "emptyDir": {}},
                *([_training_temporary(plan)] if plan.pod.read_only_root else []),
            ],
        },
    }


def _empty_dir(resources: Resources) -> Spec:
    return {"sizeLimit": resources.storage} if resources.storage else {}


def _training_temporary(plan: SegmentPod) -> Spec:
    return {"name": TRAINING_TEMPORARY, "emptyDir": _empty_dir(plan.resources)}


def _training_mounts(plan: SegmentPod) -> list[Spec]:
    """What the containers with the training's image both mount."""
    workspace = {"name": WORKSPACE_VOLUME, "mountPath": WORKSPACE}
    if not plan.pod.read_only_root:
        return [workspace]
    return [workspace, {"name": TRAINING_TEMPORARY, "mountPath": "/tmp"}]  # noqa: S108  a path in the pod


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
            *_training_mounts(plan),
            # Where torch's workers share.
            {"name": SHARED_MEMORY_VOLUME, "mountPath": "/dev/shm"},  # noqa: S108  a path in the pod
        ],
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
        "command": ["python", f"{WORKSPACE}/bin/package_install.py"],
        "args": list(plan.packages),
        "workingDir": f"{WORKSPACE}/code",
        "env": _variables(environment),
        "resources": _amounts(plan.resources.model_copy(update={"gpu": 0.0}), 1),
        "volumeMounts": _training_mounts(plan),
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
        # Why it failed then stands in the pod's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _sidecar(plan: SegmentPod) -> dict[str, str]:
    """Who leaves first, for the training's script and for the agent."""
    return {SIDECAR_VARIABLE: "1"} if plan.has_native_sidecars else {}


def _literally(value: str) -> str:
    """A variable's value that Kubernetes takes as it is.

    It puts other variables of the container in the place of ``$(NAME)``: a parameter with the
    value ``$(HPO_TOKEN)`` would show the agent's token to the training.
    """
    return value.replace("$", "$$")


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
    """The study's part of the pod."""
    pod = plan.pod
    spec: Spec = {}
    if pod.node_selector:
        spec["nodeSelector"] = dict(pod.node_selector)
    if pod.tolerations:
        spec["tolerations"] = [dict(item) for item in pod.tolerations]
    if pod.priority_class:
        spec["priorityClassName"] = pod.priority_class
    if pod.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in pod.image_pull_secrets]
    return merge(_granted(plan), {"spec": merge(spec, pod.spec)})  # type: ignore[no-any-return]


def _granted(plan: SegmentPod) -> Spec:
    """What the study names and the policy has granted, of fields that are the platform's."""
    pod = plan.pod
    return {
        "metadata": {"namespace": pod.namespace} if pod.namespace else {},
        "spec": {"serviceAccountName": pod.service_account} if pod.service_account else {},
    }


def _with_agent_in_place(template: Spec, plan: SegmentPod) -> Spec:
    """A template whose entry for the agent stands where the agent is on this cluster."""
    spec = dict(template.get("spec", {}))
    here, there = ("initContainers", "containers")[:: 1 if plan.has_native_sidecars else -1]
    moved = [item for item in spec.get(there, ()) if item["name"] == AGENT]
    if not moved:
        return template
    spec[there] = [item for item in spec[there] if item["name"] != AGENT]
    spec[here] = [*spec.get(here, ()), *moved]
    return {**template, "spec": spec}
