"""Security contexts of a segment's pod: no root, no capabilities, the runtime's system calls only.

They are defaults: what the pool's template says goes before them, and so does what the study says
and the operator's pod policy lets it say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from hpo_ops.runners.kubernetes._pod_names import AGENT, RESTORE

USER = 1000
"""User and group of all containers by default: that of the images of this project. Agent and
training have the same one, so that the agent can read checkpoints that nobody else may read;
what keeps them apart is that each container has processes and files of its own."""

Spec = dict[str, Any]


def harden(
    spec: Spec, *, user: int | Literal["image"], may_be_root: bool, is_root_read_only: bool
) -> Spec:
    """Fills the security contexts of a pod's spec.

    Args:
        spec: The spec.
        user: User of the study's containers; ``image`` leaves it to the images.
        may_be_root: Whether the operator lets studies run as root.
        is_root_read_only: Whether the root filesystem of the study's containers is read-only.
    """
    agent_user = user if isinstance(user, int) and user else USER
    whole = {
        **_user(user, may_be_root=may_be_root),
        "fsGroup": agent_user,
        # Kubernetes hands a large volume over to the group once, not at each start.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    platform = {**_user(agent_user, may_be_root=False), "readOnlyRootFilesystem": True}
    own: Spec = {"readOnlyRootFilesystem": True} if is_root_read_only else {}

    def hardened(container: Spec) -> Spec:
        said = container.get("securityContext") or {}
        defaults = platform if container["name"] in (AGENT, RESTORE) else own
        # Kubernetes takes no privileged container that may gain no privileges.
        escalation = {} if said.get("privileged") else {"allowPrivilegeEscalation": False}
        dropped = {**defaults, **escalation, "capabilities": {"drop": ["ALL"]}}
        return {**container, "securityContext": _over(dropped, said)}

    return {
        **spec,
        "securityContext": _over(whole, spec.get("securityContext") or {}),
        "initContainers": [hardened(item) for item in spec.get("initContainers", ())],
        "containers": [hardened(item) for item in spec["containers"]],
    }


def _user(user: int | Literal["image"], *, may_be_root: bool) -> Spec:
    if user == "image":
        return {} if may_be_root else {"runAsNonRoot": True}
    return {"runAsNonRoot": user != 0, "runAsUser": user, "runAsGroup": user}


def _over(defaults: Spec, said: Mapping[str, Any]) -> Spec:
    """Merges a security context over defaults; dropped capabilities stay beside added ones."""
    merged = {**defaults, **said}
    if "capabilities" in defaults:
        merged["capabilities"] = {**defaults["capabilities"], **merged["capabilities"]}
    return merged
