"""Sets default security contexts in a segment's pod.

By default containers do not run as root, have no capabilities, and use the container runtime's
seccomp profile. Values of the pool's template take precedence, and so do values of the study that
the pod policy of the platform's operator allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from hpo_ops.runners.kubernetes._pod_names import AGENT, RESTORE

USER = 1000
"""Default id of the user and group of all containers, as in the images of this project.

Agent and training have the same user, so that the agent can read checkpoints that only their
owner may read. They are isolated because each container has its own processes and files.
"""

Spec = dict[str, Any]


def harden(
    spec: Spec, *, user: int | Literal["image"], may_be_root: bool, is_root_read_only: bool
) -> Spec:
    """Returns a pod's spec with defaults added to all its security contexts.

    Args:
        spec: The pod's spec.
        user: Id of the user of the study's containers; ``image`` for the user of each image.
        may_be_root: Whether the operator allows studies to run as root.
        is_root_read_only: Whether the root filesystem of the study's containers is read-only.
    """
    agent_user = user if isinstance(user, int) and user else USER
    whole = {
        **_user(user, may_be_root=may_be_root),
        "fsGroup": agent_user,
        # Kubernetes changes the group of a volume's files once, not at each start.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    platform = {**_user(agent_user, may_be_root=False), "readOnlyRootFilesystem": True}
    own: Spec = {"readOnlyRootFilesystem": True} if is_root_read_only else {}

    def hardened(container: Spec) -> Spec:
        said = container.get("securityContext") or {}
        defaults = platform if container["name"] in (AGENT, RESTORE) else own
        # Kubernetes refuses a privileged container with allowPrivilegeEscalation: false.
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
    """Returns the security context `said`, with `defaults` for the fields that it does not set.

    A context that only adds capabilities keeps the list of dropped capabilities of the defaults.
    """
    merged = {**defaults, **said}
    if "capabilities" in defaults:
        merged["capabilities"] = {**defaults["capabilities"], **merged["capabilities"]}
    return merged
