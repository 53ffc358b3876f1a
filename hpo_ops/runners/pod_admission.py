"""Whether a study may have the pods that it asks for: the operator's pod policy, applied.

Template and generated parts of a pod are the operator's and the platform's own; only the study's
part is judged. It is judged twice: when the study starts, so that its author reads every problem
at once, and when a pod is built, where the built pod is compared with the pod that the platform
would have built without the study's part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hpo_ops.config import Pod
from hpo_ops.config.errors import shown
from hpo_ops.config.pod_policy import PLATFORM_FIELDS, PodPolicy, matches
from hpo_ops.runners.container_admission import (
    PLATFORM_VARIABLES,
    PLATFORM_VOLUMES,
    SEGMENT_SECRETS,
    Spec,
    allowed_by,
    judge_container,
    judge_image,
    judge_name,
    judge_secret,
    judge_security_context,
    named_items,
)
from hpo_ops.runners.pod_names import AGENT, PACKAGES, POOL_LABEL, RESTORE, TRAINING

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
"""Fields of a pod's spec that studies may set to anything."""
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
    """A pod that the operator's policy does not let a study have.

    Attributes:
        problems: One sentence a problem.
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
    """Everything that a study asks of its pods and may not have, one sentence each.

    Whether the namespace is allowed depends on the cluster's connection, and is judged by
    :func:`judge_namespace`.

    Args:
        pod: The study's section ``pod``.
        policy: What the operator allows.
        image: The study's own image, if it names one.
        environment: The study's variables for the training.
        template: Name of the pod template that the study's pool or ``pod.template`` leads to.
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
    """What is wrong with the namespace that a study asks for.

    Args:
        namespace: The study's ``pod.namespace``.
        policy: What the operator allows.
        own: The namespace of the platform's pods.
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
    """The keys of the section ``pod`` that stand for a field of the spec."""
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
    for path in _nulls("pod.spec", spec):
        # A null would take away what the platform and the template say.
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
        yield from _judge_volume(path, volume, pod, policy)
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


# -- Volumes ---------------------------------------------------------------------------------


def _judge_volume(path: str, volume: Spec, pod: Pod, policy: PodPolicy) -> Iterator[str]:
    if volume["name"] in PLATFORM_VOLUMES:
        yield f"{path} is a volume of the platform, which studies may not change"
    for kind, content in volume.items():
        if kind == "name":
            continue
        where = f"{path}.{kind}"
        if not isinstance(content, Mapping):
            yield f"{where} is {shown(content)}, but must be a mapping"
        elif kind == "hostPath":
            yield from _judge_host_path(f"{where}.path", content.get("path"), policy)
        elif kind not in policy.volumes:
            setting = f"volumes: [{kind}]"
            yield f"{where} is not a kind of volume for studies; {allowed_by(setting)}"
        else:
            yield from _judge_volume_source(where, kind, content, pod, policy)


def _judge_volume_source(
    path: str, kind: str, content: Spec, pod: Pod, policy: PodPolicy
) -> Iterator[str]:
    if kind == "secret":
        yield from judge_secret(f"{path}.secretName", content.get("secretName"), policy)
    elif kind == "configMap":
        yield from judge_name(
            f"{path}.name", content.get("name"), policy.config_maps, setting="config_maps"
        )
    elif kind == "persistentVolumeClaim":
        yield from judge_name(
            f"{path}.claimName", content.get("claimName"), policy.claims, setting="claims"
        )
    elif kind == "ephemeral":
        yield from _judge_ephemeral(path, content)
    elif kind == "projected":
        yield from _judge_projected(path, content, pod, policy)


def _judge_ephemeral(path: str, content: Spec) -> Iterator[str]:
    """An ephemeral volume is new and empty: no copy of another claim, no volume by name."""
    template = content.get("volumeClaimTemplate")
    spec = template.get("spec") if isinstance(template, Mapping) else None
    if not isinstance(spec, Mapping):
        yield f"{path} is {shown(content)}, but must have volumeClaimTemplate.spec"
        return
    for key in sorted({"dataSource", "dataSourceRef", "selector", "volumeName"} & set(spec)):
        yield f"{path}.volumeClaimTemplate.spec.{key} is not a field that a study may set"


def _judge_projected(path: str, content: Spec, pod: Pod, policy: PodPolicy) -> Iterator[str]:
    sources = content.get("sources", [])
    if not isinstance(sources, list) or not all(isinstance(item, Mapping) for item in sources):
        yield f"{path}.sources is {shown(sources)}, but must be a list of mappings"
        return
    has_token = policy.service_account_token and pod.service_account is not None
    kinds = (
        "configMap",
        "downwardAPI",
        "secret",
        *(("serviceAccountToken",) if has_token else ()),
    )
    for number, source in enumerate(sources):
        for kind, item in source.items():
            where = f"{path}.sources[{number}].{kind}"
            if kind not in kinds or not isinstance(item, Mapping):
                yield f"{where} is not a source for studies (sources: {', '.join(kinds)})"
            elif kind == "secret":
                yield from judge_secret(f"{where}.name", item.get("name"), policy)
            elif kind == "configMap":
                yield from _judge_volume_source(where, kind, item, pod, policy)


def _judge_host_path(path: str, found: object, policy: PodPolicy) -> Iterator[str]:
    parts = found.split("/") if isinstance(found, str) else []
    is_below = isinstance(found, str) and any(
        root == "/" or found == root or found.startswith(f"{root}/") for root in policy.host_paths
    )
    if not is_below or ".." in parts:
        yield (
            f"{path} is {shown(found)}, but folders of the node are not for studies; "
            f"{allowed_by('host_paths')}"
        )


# -- The pod that was built ------------------------------------------------------------------


def check_built(platform: Spec, built: Spec, policy: PodPolicy) -> None:
    """Compares a built pod with the one that platform and template make without the study's part.

    It repeats no rule of :func:`find_refusals` but holds what they are for, so that a way around
    one of them, or around the merge, is refused all the same.

    Args:
        platform: The pod of template and platform.
        built: The same with the study's part merged over it.
        policy: What the operator allows.

    Raises:
        PodRefusedError: The study's part has changed what is not the study's.
    """
    if problems := list(_differences(platform, built, policy)):
        raise PodRefusedError(problems)


def _differences(platform: Spec, built: Spec, policy: PodPolicy) -> Iterator[str]:
    for key in ("labels", "annotations", "name"):
        if platform["metadata"].get(key) != built["metadata"].get(key):
            yield f"metadata.{key} of the pod is not what the platform gave it"
    before, after = platform["spec"], built["spec"]
    for key in sorted({*before, *after} - FREE_FIELDS - JUDGED_FIELDS - {*policy.spec_fields}):
        if before.get(key) != after.get(key):
            yield f"spec.{key} of the pod is not what platform and template say"
    for key, value in before.get("nodeSelector", {}).items():
        if after.get("nodeSelector", {}).get(key) != value:
            yield f"spec.nodeSelector.{key} of the pod is not {shown(value)}, as its template says"
    for key in ("containers", "initContainers"):
        yield from _changed_items(key, before.get(key), after.get(key), but=(TRAINING,))
    yield from _changed_items("volumes", before.get("volumes"), after.get("volumes"))
    yield from _changed_training(before, after)
    if secret := _segment_secret(before, after):
        yield f"the pod shows the secret {secret}, which is for the platform's agents only"


def _changed_items(
    key: str, before: Any, after: Any, *, but: tuple[str, ...] = ()
) -> Iterator[str]:
    found = _by_name(after)
    for name, item in _by_name(before).items():
        if name not in but and found.get(name) != item:
            yield f"spec.{key}[{name}] of the pod is not what platform and template say"
    if len(found) != len(after or ()):
        yield f"spec.{key} of the pod has an item without a name, or a name twice"


def _changed_training(before: Spec, after: Spec) -> Iterator[str]:
    old, new = (_by_name(spec.get("containers")).get(TRAINING, {}) for spec in (before, after))
    for key in ("image", "command", "args"):
        if old.get(key) != new.get(key):
            yield f"{key} of the training container is not what the platform gave it"
    mounts = new.get("volumeMounts", [])
    if not all(mount in mounts for mount in old.get("volumeMounts", [])):
        yield "the training container's mounts are not those that the platform gave it"


def _by_name(items: Any) -> dict[str, Spec]:
    return {item["name"]: item for item in items or () if isinstance(item, Mapping)}


def _segment_secret(before: Spec, after: Spec) -> str | None:
    """A segment's secret that the study's part names, in whatever way Kubernetes knows."""
    old, new = (set(_secret_names(_without_platform(spec))) for spec in (before, after))
    return min(new - old, default=None)


def _without_platform(spec: Spec) -> dict[str, Any]:
    return {
        key: [item for item in value if item.get("name") not in PLATFORM_CONTAINERS]
        if key in ("containers", "initContainers")
        else value
        for key, value in spec.items()
    }


def _secret_names(value: object, *, is_secret: bool = False) -> Iterator[str]:
    """Names of segments' secrets below fields such as secretRef, secretName, imagePullSecrets."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secret_names(item, is_secret=is_secret or "secret" in str(key).lower())
    elif isinstance(value, list):
        for item in value:
            yield from _secret_names(item, is_secret=is_secret)
    elif is_secret and isinstance(value, str) and matches(value, (SEGMENT_SECRETS,)):
        yield value
