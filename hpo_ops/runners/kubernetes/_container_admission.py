"""Checks the containers under a study's ``pod.spec`` against the operator's pod policy.

The operator is the person who runs the platform. A field that no list in this module names is
refused, so that fields of later Kubernetes versions are not allowed by accident.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hpo_ops.config.pod_policy import POLICY_VARIABLE, PodPolicy, matches
from hpo_ops.config.study_errors import shown
from hpo_ops.protocol import DIRECTORY_VARIABLE, SIDECAR_VARIABLE
from hpo_ops.runners.kubernetes._pod_names import GPU, SHARED_MEMORY_VOLUME, WORKSPACE_VOLUME

TRAINING_FIELDS = frozenset(
    [
        "env",
        "envFrom",
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resources",
        "securityContext",
        "startupProbe",
        "stdin",
        "terminationMessagePolicy",
        "tty",
        "volumeMounts",
        "workingDir",
    ]
)
"""Fields that a study may add to its training container."""
OWN_FIELDS = TRAINING_FIELDS | {"args", "command", "image", "restartPolicy"}
"""Fields that additional containers of a study may have."""
PLATFORM_VOLUMES = (WORKSPACE_VOLUME, SHARED_MEMORY_VOLUME)
"""The workspace and ``/dev/shm``, which a study's additional containers may mount as a whole."""
PLATFORM_VARIABLES = (DIRECTORY_VARIABLE, SIDECAR_VARIABLE)
SEGMENT_SECRETS = "hpo-*"
"""Name pattern of the secrets with the agent's token and the keys of the store."""
_OLD_TOKEN = re.compile(r"-token-[a-z0-9]{5}")
"""Name pattern of the secrets in which Kubernetes before 1.24 stores service account tokens."""
_MOUNT_FIELDS = {"name", "mountPath", "readOnly", "recursiveReadOnly", "subPath", "subPathExpr"}
_HARMLESS: Mapping[str, tuple[object, ...]] = {
    "allowPrivilegeEscalation": (False,),
    "privileged": (False,),
    "readOnlyRootFilesystem": (True, False),
    "runAsNonRoot": (True,),
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
}
"""For each field of a security context, the values that do not weaken the protection."""

Spec = Mapping[str, Any]


def allowed_by(setting: str) -> str:
    """Returns the end of a refusal message: which policy setting would allow the refused value."""
    return f"the operator allows it with {setting} in the pod policy ({POLICY_VARIABLE})"


def judge_container(
    path: str, container: Spec, policy: PodPolicy, *, is_training: bool, volumes: frozenset[str]
) -> Iterator[str]:
    """Yields the reasons why a container in a study's ``pod.spec`` is refused; none if allowed.

    Args:
        path: The container's path in the study, for messages.
        container: The fields that the study sets.
        policy: The operator's pod policy.
        is_training: Whether the fields are for the platform's training container; otherwise the
            container is an additional one of the study.
        volumes: Names of the volumes that the study declares.
    """
    fields = TRAINING_FIELDS if is_training else OWN_FIELDS
    for key in container:
        if key not in fields:
            why = _OF_THE_STUDY.get(key, f"fields: {', '.join(sorted(fields))}")
            yield f"{path}.{key} is not a field that a study may set ({why})"
    if "image" in container and not is_training:
        yield from judge_image(f"{path}.image", container["image"], policy)
    yield from _judge_variables(path, container, policy)
    yield from _judge_mounts(path, container, is_training=is_training, volumes=volumes)
    yield from judge_security_context(
        f"{path}.securityContext", container.get("securityContext", {}), policy
    )
    yield from _judge_resources(f"{path}.resources", container.get("resources", {}))
    yield from _judge_host_access(path, container)


_OF_THE_STUDY = {
    "command": "the study's own key command sets it",
    "args": "the study's own key command sets it",
    "image": "the study's own key image sets it",
}


def judge_image(path: str, image: object, policy: PodPolicy) -> Iterator[str]:
    """Yields the reason why the pod policy refuses an image; nothing if it allows the image."""
    if not isinstance(image, str):
        yield f"{path} is {shown(image)}, but must be text"
    elif not matches(image, policy.images):
        yield f"{path} is {shown(image)}, but studies may not use it; {allowed_by('images')}"


def judge_name(
    path: str, name: object, allowed: tuple[str, ...], *, setting: str
) -> Iterator[str]:
    """Yields the reason why the pod policy refuses the name of an object; nothing if allowed.

    Args:
        path: Path in the study at which the name is set, for messages.
        name: The name of an object of the cluster, such as a config map or a claim.
        allowed: The name patterns that the policy allows.
        setting: The policy setting with these patterns, for messages.
    """
    if not isinstance(name, str):
        yield f"{path} is {shown(name)}, but must be text"
    elif not matches(name, allowed):
        yield f"{path} is {shown(name)}, but studies may not use it; {allowed_by(setting)}"


def judge_secret(path: str, name: object, policy: PodPolicy) -> Iterator[str]:
    """Yields the reason why a study may not use a secret; nothing if the secret is allowed."""
    if isinstance(name, str) and matches(name, (SEGMENT_SECRETS,)):
        yield f"{path} is {shown(name)}, but the secrets hpo-* are for the platform's agents only"
    elif isinstance(name, str) and _OLD_TOKEN.search(name) and name not in policy.secrets:
        yield (
            f"{path} is {shown(name)}, which looks like the token of a service account; "
            f"{allowed_by('its exact name under secrets')}"
        )
    else:
        yield from judge_name(path, name, policy.secrets, setting="secrets")


def named_items(path: str, value: object) -> tuple[list[tuple[str, Spec]], list[str]]:
    """Reads a list in a pod's spec whose items must have names, such as `containers`.

    Kubernetes, and the merge of specs, identify items of such lists by their names.

    Returns:
        The items that have a name, each with its path in the study, and one message for each
        item without a name, or for a value that is no list.
    """
    if not isinstance(value, list):
        return [], [f"{path} is {shown(value)}, but must be a list"]
    items, problems = [], []
    for number, item in enumerate(value):
        name = item.get("name") if isinstance(item, Mapping) else None
        if isinstance(name, str) and name:
            items.append((f"{path}[{name}]", item))
        else:
            problems.append(
                f"{path}[{number}] is {shown(item)}, but must be a mapping with a name"
            )
    return items, problems


def _mapping(path: str, value: object) -> tuple[Spec, list[str]]:
    if isinstance(value, Mapping):
        return value, []
    return {}, [f"{path} is {shown(value)}, but must be a mapping"]


# -- Variables -------------------------------------------------------------------------------


def _judge_variables(path: str, container: Spec, policy: PodPolicy) -> Iterator[str]:
    items, problems = named_items(f"{path}.env", container.get("env", []))
    yield from problems
    for where, item in items:
        if item["name"] in PLATFORM_VARIABLES:
            yield f"{where} is a variable that the platform sets itself"
        source, wrong = _mapping(f"{where}.valueFrom", item.get("valueFrom", {}))
        yield from wrong
        yield from _judge_sources(f"{where}.valueFrom", source, policy, kinds=_VALUE_KINDS)
    many = container.get("envFrom", [])
    if not isinstance(many, list):
        yield f"{path}.envFrom is {shown(many)}, but must be a list"
        return
    for number, item in enumerate(many):
        where = f"{path}.envFrom[{number}]"
        source, wrong = _mapping(where, item)
        yield from wrong
        kept = {key: value for key, value in source.items() if key != "prefix"}
        yield from _judge_sources(where, kept, policy, kinds=_ENVIRONMENT_KINDS)


_VALUE_KINDS = ("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef")
_ENVIRONMENT_KINDS = ("secretRef", "configMapRef")


def _judge_sources(
    path: str, source: Spec, policy: PodPolicy, *, kinds: tuple[str, ...]
) -> Iterator[str]:
    """Yields the reasons why a container's sources of variables are refused; none if allowed."""
    for kind, content in source.items():
        where = f"{path}.{kind}"
        if kind not in kinds:
            yield f"{where} is not a source that a study may use (sources: {', '.join(kinds)})"
            continue
        found, wrong = _mapping(where, content)
        yield from wrong
        if wrong:
            continue
        if kind.startswith("secret"):
            yield from judge_secret(f"{where}.name", found.get("name"), policy)
        elif kind.startswith("configMap"):
            yield from judge_name(
                f"{where}.name", found.get("name"), policy.config_maps, setting="config_maps"
            )


# -- Mounts ----------------------------------------------------------------------------------


def _judge_mounts(
    path: str, container: Spec, *, is_training: bool, volumes: frozenset[str]
) -> Iterator[str]:
    items, problems = named_items(f"{path}.volumeMounts", container.get("volumeMounts", []))
    yield from problems
    for where, item in items:
        for key in item:
            if key not in _MOUNT_FIELDS:
                yield f"{where}.{key} is not a field of a mount that a study may set"
        if item["name"] in volumes:
            continue
        if is_training or item["name"] not in PLATFORM_VOLUMES:
            yield (
                f"{where} is not a volume of pod.spec.volumes; "
                "volumes of the platform and of templates are not for studies to mount"
            )
        elif {"subPath", "subPathExpr"} & set(item):
            yield f"{where} has a subPath, but a volume of the platform is mounted whole"


# -- Security contexts -----------------------------------------------------------------------


def judge_security_context(path: str, context: object, policy: PodPolicy) -> Iterator[str]:
    """Yields the reasons why a security context is refused; none if it is allowed.

    Args:
        path: The context's path in the study, for messages.
        context: The security context of a container or of the pod.
        policy: The operator's pod policy.
    """
    fields, wrong = _mapping(path, context)
    yield from wrong
    for key, value in fields.items():
        if key not in policy.security_context:
            yield from _judge_security(f"{path}.{key}", key, value, policy)


def _judge_security(path: str, key: str, value: object, policy: PodPolicy) -> Iterator[str]:
    if key == "capabilities":
        yield from _judge_capabilities(path, value, policy)
    elif key == "seccompProfile":
        if value != {"type": "RuntimeDefault"}:
            yield f"{path} is {shown(value)}, but must be {{type: RuntimeDefault}}"
    elif key == "runAsUser":
        yield from _judge_user(path, value, policy)
    elif key in ("runAsGroup", "fsGroup", "supplementalGroups"):
        numbers = value if isinstance(value, list) else [value]
        # A study may set fsGroup to null, for volumes whose files must keep their group.
        if not all(_is_id(number) or (key == "fsGroup" and number is None) for number in numbers):
            yield f"{path} is {shown(value)}, but must be the number of a group"
    elif key == "runAsNonRoot" and policy.root and isinstance(value, bool):
        return
    elif value not in _HARMLESS.get(key, ()):
        setting = "root: true" if key == "runAsNonRoot" else f"security_context: [{key}]"
        yield f"{path} is {_literal(value)}, but studies may not set that; {allowed_by(setting)}"


def _judge_user(path: str, value: object, policy: PodPolicy) -> Iterator[str]:
    if not _is_id(value):
        yield f"{path} is {shown(value)}, but must be the number of a user"
    elif value == 0 and not policy.root:
        yield f"{path} is 0, but pods of studies do not run as root; {allowed_by('root: true')}"


def _judge_capabilities(path: str, value: object, policy: PodPolicy) -> Iterator[str]:
    fields, wrong = _mapping(path, value)
    yield from wrong
    for key, names in fields.items():
        if not isinstance(names, list):
            yield f"{path}.{key} is {shown(names)}, but must be a list"
        elif key == "add":
            if refused := [str(name) for name in names if name not in policy.capabilities]:
                listed = ", ".join(refused)
                yield (
                    f"{path}.add has {listed}, but studies may not add that; "
                    f"{allowed_by(f'capabilities: [{listed}]')}"
                )
        elif key != "drop" or names != ["ALL"]:
            yield f"{path}.{key} is {shown(names)}, but all capabilities are dropped already"


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else shown(value)


# -- The node --------------------------------------------------------------------------------


def _judge_resources(path: str, resources: object) -> Iterator[str]:
    fields, wrong = _mapping(path, resources)
    yield from wrong
    for key, amounts in fields.items():
        if key not in ("requests", "limits") or not isinstance(amounts, Mapping):
            yield f"{path}.{key} is {shown(amounts)}, but must be a mapping under requests, limits"
        elif GPU in amounts:
            yield f"{path}.{key} has {GPU}, but the study's own key resources.gpu sets it"


def _judge_host_access(path: str, container: Spec) -> Iterator[str]:
    """Yields the reasons why ports, probes and hooks of a container are refused; none if allowed.

    A container may not open ports of its node, and its probes and hooks may not name a host.
    """
    ports = container.get("ports", [])
    if not isinstance(ports, list) or not all(isinstance(port, Mapping) for port in ports):
        yield f"{path}.ports is {shown(ports)}, but must be a list of mappings"
    else:
        for number, port in enumerate(ports):
            for key in sorted({"hostPort", "hostIP"} & set(port)):
                yield f"{path}.ports[{number}].{key} is a port of the node, not for studies"
    for key in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        if _has_key(container.get(key), "host"):
            yield f"{path}.{key} names a host, but may only ask the container itself"


def _has_key(value: object, wanted: str) -> bool:
    if isinstance(value, Mapping):
        return wanted in value or any(_has_key(item, wanted) for item in value.values())
    return isinstance(value, list) and any(_has_key(item, wanted) for item in value)
