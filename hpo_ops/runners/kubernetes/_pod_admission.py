"""Checks the pod settings of a study against the pod policy of the platform's operator.

The operator is the person who runs the platform. Only the study's part of a pod is checked, since
the template and the generated parts come from the operator and the platform. It is checked twice:
when the study starts, so that its author sees all problems at once, and when a pod is built. The
built pod is then also verified (:mod:`_pod_verification`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpo_ops.config import Pod
from hpo_ops.config.pod_policy import PLATFORM_FIELDS, PodPolicy, matches
from hpo_ops.config.study_errors import shown
from hpo_ops.runners.kubernetes._container_admission import (
    PLATFORM_VARIABLES,
    Spec,
    allowed_by,
    judge_container,
    judge_image,
    judge_name,
    judge_secret,
    judge_security_context,
    named_items,
)
from hpo_ops.runners.kubernetes._pod_names import (
    AGENT,
    PACKAGES,
    POOL_LABEL,
    RESTORE,
    TRAINING,
)
from hpo_ops.runners.kubernetes._volume_admission import judge_volume

PLATFORM_CONTAINERS = (RESTORE, AGENT, PACKAGES)
FREE_FIELDS = frozenset(
    [
        "activeDeadlineSeconds",
        "affinity",
        "hostname",
        "preemptionPolicy",
        "runtimeClassName",
        "schedulerName",
        "schedulingGates",
        "subdomain",
        "terminationGracePeriodSeconds",
        "topologySpreadConstraints",
    ]
)
"""Fields of a pod's spec that studies may set to any value."""
JUDGED_FIELDS = frozenset(
    [
        "containers",
        "imagePullSecrets",
        "initContainers",
        "nodeSelector",
        "priorityClassName",
        "securityContext",
        "tolerations",
        "volumes",
    ]
)
MAX_DEPTH = 32
_SYSTEM_CLASSES, _CONTROL_PLANE = "system-*", "node-role.kubernetes.io/*"
_OWN_KEYS = {
    "automountServiceAccountToken": "no container of a study needs a token of the cluster",
    "serviceAccount": "the study's own key pod.service_account sets it",
    "serviceAccountName": "the study's own key pod.service_account sets it",
    "shareProcessNamespace": "the training would see the agent's token and keys",
    "hostPID": "the training would see the processes of the node",
    "restartPolicy": "a segment's pod is never started again",
}


class PodRefusedError(ValueError):
    """Raised if the operator's policy does not allow the pod that a study requests.

    Attributes:
        problems: One sentence for each problem.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


def find_refusals(
    pod: Pod,
    policy: PodPolicy,
    *,
    image: str | None = None,
    environment: Mapping[str, str] | None = None,
    template: str | None = None,
) -> list[str]:
    """Returns one sentence for each pod setting of a study that the policy does not allow.

    The namespace is not checked here, since it depends on the cluster's connection; see
    :func:`judge_namespace`.

    Args:
        pod: The study's section ``pod``.
        policy: The operator's pod policy.
        image: The image that the study names; None if it uses the platform's image.
        environment: The study's environment variables for the training.
        template: Name of the pod template, which follows from ``pod.template`` or the study's
            pool; None if it is not to be checked.
    """
    return [
        *_judge_keys(pod, policy),
        *(judge_image("image", image, policy) if image is not None else ()),
        *(
            f"env.{name} is a variable that the platform sets itself"
            for name in environment or {}
            if name in PLATFORM_VARIABLES
        ),
        *(_judge_template(template, policy) if template is not None else ()),
        *_judge_spec(pod, policy),
    ]


def judge_namespace(namespace: str | None, policy: PodPolicy, *, own: str) -> list[str]:
    """Returns the reasons why a study's namespace is refused; an empty list if it is allowed.

    Args:
        namespace: The study's ``pod.namespace``; None if the study does not set it.
        policy: The operator's pod policy.
        own: The namespace of the cluster's connection, which is always allowed.
    """
    if namespace is None or namespace == own:
        return []
    return list(judge_name("pod.namespace", namespace, policy.namespaces, setting="namespaces"))


def _judge_template(name: str, policy: PodPolicy) -> Iterator[str]:
    if not matches(name, policy.templates):
        yield (
            f"the pod template is {shown(name)} (by resources.pool or pod.template), "
            f"but studies may not use it; {allowed_by('templates')}"
        )


def _judge_keys(pod: Pod, policy: PodPolicy) -> Iterator[str]:
    """Yields the reasons why keys of ``pod``, such as ``tolerations``, are refused, if any are."""
    if pod.service_account is not None:
        yield from judge_name(
            "pod.service_account",
            pod.service_account,
            policy.service_accounts,
            setting="service_accounts",
        )
    if pod.priority_class is not None:
        yield from _judge_priority_class("pod.priority_class", pod.priority_class, policy)
    for name in pod.image_pull_secrets:
        yield from judge_secret("pod.image_pull_secrets", name, policy)
    if pod.run_as_user == 0 and not policy.root:
        yield (
            "pod.run_as_user is 0, but pods of studies do not run as root; "
            f"{allowed_by('root: true')}"
        )
    yield from _judge_labels("pod.node_selector", pod.node_selector, policy)
    yield from _judge_tolerations("pod.tolerations", list(pod.tolerations), policy)


def _judge_spec(pod: Pod, policy: PodPolicy) -> Iterator[str]:
    spec = pod.spec
    if _depth(spec) > MAX_DEPTH:
        yield f"pod.spec is nested more than {MAX_DEPTH} levels deep"
        return
    for path in _nulls("pod.spec", spec):
        # A null would remove a value that the platform or the template sets.
        if path != "pod.spec.securityContext.fsGroup":
            yield f"{path} is null, but must have a value"
    for key in spec:
        if key in PLATFORM_FIELDS:
            why = _OWN_KEYS.get(key, "it is the platform's")
            yield f"pod.spec.{key} is not a field that a study may set: {why}"
        elif key not in FREE_FIELDS | JUDGED_FIELDS and key not in policy.spec_fields:
            setting = f"spec_fields: [{key}]"
            yield f"pod.spec.{key} is not a field that a study may set; {allowed_by(setting)}"
    volumes, problems = named_items("pod.spec.volumes", spec.get("volumes", []))
    yield from problems
    for path, volume in volumes:
        yield from judge_volume(path, volume, pod, policy)
    declared = frozenset(str(volume["name"]) for _, volume in volumes)
    for key in ("containers", "initContainers"):
        yield from _judge_containers(key, spec.get(key, []), policy, declared)
    yield from _judge_whole_pod(spec, policy)


def _judge_whole_pod(spec: Spec, policy: PodPolicy) -> Iterator[str]:
    yield from judge_security_context(
        "pod.spec.securityContext", spec.get("securityContext", {}), policy
    )
    if "priorityClassName" in spec:
        yield from _judge_priority_class(
            "pod.spec.priorityClassName", spec["priorityClassName"], policy
        )
    items, problems = named_items("pod.spec.imagePullSecrets", spec.get("imagePullSecrets", []))
    yield from problems
    for path, item in items:
        yield from judge_secret(path, item["name"], policy)
    yield from _judge_labels("pod.spec.nodeSelector", spec.get("nodeSelector", {}), policy)
    yield from _judge_tolerations("pod.spec.tolerations", spec.get("tolerations", []), policy)


def _depth(value: object) -> int:
    """Returns how deeply mappings and lists are nested in a value, at most `MAX_DEPTH` + 1."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            child
            for item in level
            if isinstance(item, Mapping | list)
            for child in (item.values() if isinstance(item, Mapping) else item)
        ]
    return depth


def _nulls(path: str, value: object) -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _nulls(f"{path}.{key}", item)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _nulls(f"{path}[{number}]", item)


def _judge_containers(
    key: str, value: object, policy: PodPolicy, volumes: frozenset[str]
) -> Iterator[str]:
    items, problems = named_items(f"pod.spec.{key}", value)
    yield from problems
    for path, container in items:
        name = container["name"]
        if name in PLATFORM_CONTAINERS or (name == TRAINING and key != "containers"):
            yield (
                f"{path} is a container of the platform, which studies may not change; "
                "the operator sets its variables in the pool's template"
            )
            continue
        yield from judge_container(
            path, container, policy, is_training=name == TRAINING, volumes=volumes
        )


# -- Where it runs ---------------------------------------------------------------------------


def _judge_priority_class(path: str, name: object, policy: PodPolicy) -> Iterator[str]:
    if isinstance(name, str) and matches(name, (_SYSTEM_CLASSES,)):
        allowed = tuple(item for item in policy.priority_classes if item == name)
    else:
        allowed = policy.priority_classes
    yield from judge_name(path, name, allowed, setting=f"priority_classes: [{name}]")


def _judge_labels(path: str, labels: object, policy: PodPolicy) -> Iterator[str]:
    if not isinstance(labels, Mapping):
        yield f"{path} is {shown(labels)}, but must be a mapping"
        return
    for key in labels:
        if key == POOL_LABEL:
            yield f"{path}.{key} is set by the study's own key resources.pool"
        else:
            yield from judge_name(f"{path}.{key}", key, policy.node_labels, setting="node_labels")


def _judge_tolerations(path: str, tolerations: object, policy: PodPolicy) -> Iterator[str]:
    if not isinstance(tolerations, list):
        yield f"{path} is {shown(tolerations)}, but must be a list"
        return
    for number, item in enumerate(tolerations):
        key = item.get("key") if isinstance(item, Mapping) else None
        where = f"{path}[{number}]"
        if not isinstance(key, str) or not key:
            yield f"{where} is {shown(item)}, but must name the key of a taint"
        elif matches(key, (_CONTROL_PLANE,)) and key not in policy.tolerations:
            yield (
                f"{where}.key is {shown(key)}, but nodes of the control plane are not for "
                f"studies; {allowed_by(f'tolerations: [{key}]')}"
            )
        else:
            yield from judge_name(f"{where}.key", key, policy.tolerations, setting="tolerations")
