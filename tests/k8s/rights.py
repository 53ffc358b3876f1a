"""The rights that the documentation asks for, and an identity that has these and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import RbacAuthorizationV1Api

from tests.cluster.cluster import Cluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kubernetes.md"
ACCOUNT = "airflow"
TOKEN_SECONDS = 4 * 3600
GROUP = "rbac.authorization.k8s.io"


def documented(kind: str) -> list[dict[str, Any]]:
    """The roles of a kind that the page on Kubernetes shows."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    shown = [yaml.safe_load(block) for block in blocks]
    return [item for item in shown if isinstance(item, dict) and item.get("kind") == kind]


@contextmanager
def least_rights(cluster: Cluster, namespace: str, file: Path) -> Iterator[Path]:
    """A kubeconfig of an account with the documented rights in one namespace."""
    core = cluster.api()
    rbac = RbacAuthorizationV1Api(core.api_client)
    core.create_namespaced_service_account(namespace, {"metadata": {"name": ACCOUNT}})
    for role in documented("Role"):
        name = role["metadata"]["name"]
        rbac.create_namespaced_role(namespace, _named(role, name))
        rbac.create_namespaced_role_binding(namespace, _binding("Role", name, namespace))
    # Roles of a whole cluster outlive the namespace, and other tests may have theirs.
    everywhere = {
        f"{namespace}-{role['metadata']['name']}": role for role in documented("ClusterRole")
    }
    try:
        for name, role in everywhere.items():
            rbac.create_cluster_role(_named(role, name))
            rbac.create_cluster_role_binding(_binding("ClusterRole", name, namespace))
        wanted = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
        made = core.create_namespaced_service_account_token(ACCOUNT, namespace, wanted)
        config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
        for user in config["users"]:
            user["user"] = {"token": made.status.token}
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        yield file
    finally:
        for name in everywhere:
            rbac.delete_cluster_role_binding(name)
            rbac.delete_cluster_role(name)


def _named(role: dict[str, Any], name: str) -> dict[str, Any]:
    return {**role, "metadata": {"name": name}}


def _binding(kind: str, name: str, namespace: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
    }
