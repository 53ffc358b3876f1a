"""Builds the pod of a segment (one uninterrupted execution of a trial).

A pod has an init container that restores code and checkpoint, an init container that installs
packages if the code requires any, the training container, and the agent's container. They share
the workspace. The pod is merged from three sources, in which later sources override earlier ones:
the template of the pool, the parts generated in this module, and the study's section ``pod``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from hpo_ops.config import Pod, Resources
from hpo_ops.runners.kubernetes._node_terms import join_terms
from hpo_ops.runners.kubernetes._pod_admission import PodRefusedError, find_refusals
from hpo_ops.runners.kubernetes._pod_containers import (
    agent_container,
    packages_container,
    restore_container,
    training_container,
)
from hpo_ops.runners.kubernetes._pod_names import (
    AGENT,
    AGENT_TEMPORARY,
    AGENT_VOLUME,
    SHARED_MEMORY_VOLUME,
    SHARES_ANNOTATION,
    TRAINING,
    TRAINING_TEMPORARY,
    WORKSPACE_VOLUME,
)
from hpo_ops.runners.kubernetes._pod_security import harden
from hpo_ops.runners.kubernetes._pod_verification import check_built
from hpo_ops.runners.kubernetes._segment_pod import UPLOAD_SECONDS, SegmentPod, Spec


def template_name(resources: Resources, pod: Pod) -> str:
    """Returns the name of a study's pod template: ``pod.template``, or else that of its pool."""
    return pod.template or f"trial_{resources.pool_name.replace('-', '_')}"


def build_pod(template: Spec, plan: SegmentPod) -> Spec:
    """Builds the pod of a segment, as it is sent to Kubernetes.

    Args:
        template: The pod template.
        plan: The pod's settings.

    Raises:
        PodRefusedError: The study requests something that the operator's policy does not allow.
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
    # Airflow regards the first container as the main container.
    spec["containers"].sort(key=lambda container: container["name"] != TRAINING)
    return {**built, "spec": spec}


def merge(base: Any, over: Any) -> Any:
    """Merges the spec `over` into the spec `base`; values of `over` take precedence.

    Mappings are merged by key, and lists by the items' name, mount path, key or port. Lists
    without such an identifier are replaced.
    """
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
    """Returns the number of shares per GPU, an annotation of the pod template; 1 by default."""
    annotations = template.get("metadata", {}).get("annotations", {})
    return int(annotations.get(SHARES_ANNOTATION, 1))


def _generated(plan: SegmentPod, shares: int) -> Spec:
    agent = agent_container(plan)
    native = plan.has_native_sidecars
    before = [restore_container(plan)]
    if plan.packages:
        before.append(packages_container(plan))
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
            "containers": [training_container(plan, shares), *([] if native else [agent])],
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


def _overrides(plan: SegmentPod) -> Spec:
    """Returns the part of the pod that the study's section ``pod`` sets."""
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
    """Returns the part of a pod with the namespace and service account that the study sets.

    The platform normally sets these fields; the pod policy decides which values a study may set.
    """
    pod = plan.pod
    return {
        "metadata": {"namespace": pod.namespace} if pod.namespace else {},
        "spec": {"serviceAccountName": pod.service_account} if pod.service_account else {},
    }


def _with_agent_in_place(template: Spec, plan: SegmentPod) -> Spec:
    """Returns the pod template with its agent moved to the list that the cluster needs.

    The list is ``initContainers`` if the cluster has native sidecars, and ``containers`` if not.
    """
    spec = dict(template.get("spec", {}))
    here, there = ("initContainers", "containers")[:: 1 if plan.has_native_sidecars else -1]
    moved = [item for item in spec.get(there, ()) if item["name"] == AGENT]
    if not moved:
        return template
    spec[there] = [item for item in spec[there] if item["name"] != AGENT]
    spec[here] = [*spec.get(here, ()), *moved]
    return {**template, "spec": spec}
