"""Verifies a segment's pod by comparing it with the same pod without the study's settings.

The rules of `_pod_admission` check the study's settings. This module checks their effect: parts of
the pod that belong to the platform or the template are unchanged. It therefore refuses a pod even
if the study evaded one of those rules, or exploited the merge of specs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hpo_ops.config.pod_policy import PodPolicy, matches
from hpo_ops.config.study_errors import shown
from hpo_ops.runners.kubernetes._container_admission import PLATFORM_VOLUMES, SEGMENT_SECRETS, Spec
from hpo_ops.runners.kubernetes._pod_admission import (
    FREE_FIELDS,
    JUDGED_FIELDS,
    PLATFORM_CONTAINERS,
    PodRefusedError,
)
from hpo_ops.runners.kubernetes._pod_names import TRAINING


def check_built(platform: Spec, built: Spec, policy: PodPolicy) -> None:
    """Checks that a study has not changed the platform's or the template's parts of a pod.

    Args:
        platform: The pod built from template and platform, without the study's part.
        built: The same pod with the study's part merged over it.
        policy: The operator's pod policy.

    Raises:
        PodRefusedError: The study has changed a part of the platform or the template.
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
    yield from _changed_protection(before, after)
    yield from _foreign_mounts(before, after)
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


def _own_containers(spec: Spec) -> Iterator[Spec]:
    """Yields, from a pod's spec, the training container and the study's additional containers."""
    for key in ("initContainers", "containers"):
        for container in spec.get(key, ()):
            if container["name"] not in PLATFORM_CONTAINERS:
                yield container


def _changed_protection(before: Spec, after: Spec) -> Iterator[str]:
    """Yields a message for each security setting of the template that the built pod changes."""
    old = {item["name"]: item.get("securityContext", {}) for item in _own_containers(before)}
    whole = before.get("securityContext", {})
    found = [("spec", after.get("securityContext", {}), whole)]
    for item in _own_containers(after):
        said, own = item.get("securityContext", {}), old.get(item["name"], {})
        kept = {key: value for key, value in whole.items() if key in said}
        found.append((f"the container {item['name']}", said, {**kept, **own}))
    for place, said, kept in found:
        for key, value in kept.items():
            if said.get(key) != value:
                wanted = f"{shown(value)}, as the template says"
                yield f"securityContext.{key} of {place} is not {wanted}"


def _foreign_mounts(before: Spec, after: Spec) -> Iterator[str]:
    """Yields a message for each mount that a study added of a volume that it may not mount."""
    old = {item["name"]: item.get("volumeMounts", []) for item in _own_containers(before)}
    closed = set(_by_name(before.get("volumes"))) - {*PLATFORM_VOLUMES}
    for item in _own_containers(after):
        for mount in item.get("volumeMounts", ()):
            if mount["name"] in closed and mount not in old.get(item["name"], []):
                volume = mount["name"]
                yield f"the container {item['name']} mounts {volume}, which is not the study's"


def _by_name(items: Any) -> dict[str, Spec]:
    return {item["name"]: item for item in items or () if isinstance(item, Mapping)}


def _segment_secret(before: Spec, after: Spec) -> str | None:
    """Returns the name of a segment's secret that the study's settings name; None if none."""
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
    """Yields the names of segments' secrets in a spec's fields, such as secretRef."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secret_names(item, is_secret=is_secret or "secret" in str(key).lower())
    elif isinstance(value, list):
        for item in value:
            yield from _secret_names(item, is_secret=is_secret)
    elif is_secret and isinstance(value, str) and matches(value, (SEGMENT_SECRETS,)):
        yield value
