"""A Kubernetes in memory: the few calls that look for pods and secrets, and delete them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from kubernetes.client.exceptions import ApiException

from hpo_ops.runners.kubernetes._pod_names import MANAGED_BY, SEGMENT_LABEL

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class FakeKubernetes:
    """Pods and secrets by namespace and name.

    Attributes:
        forbidden: Namespaces that nobody may look at.
        grace: The grace period with which each pod was deleted.
    """

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Any] = {}
        self.secrets: dict[tuple[str, str], Any] = {}
        self.forbidden: set[str] = set()
        self.grace: dict[str, int | None] = {}

    def add_pod(
        self,
        name: str,
        segment: str,
        *,
        namespace: str = "default",
        seconds: float = 3600,
        told_to_go: float | None = None,
        now: datetime = NOW,
    ) -> None:
        metadata = _metadata(name, segment, namespace, seconds, now)
        if told_to_go is not None:
            metadata.deletion_timestamp = now - timedelta(seconds=told_to_go)
        status = SimpleNamespace(
            phase="Running",
            reason=None,
            message=None,
            conditions=None,
            init_container_statuses=None,
            container_statuses=None,
        )
        self.pods[namespace, name] = SimpleNamespace(metadata=metadata, status=status)

    def add_secret(
        self,
        name: str,
        segment: str,
        *,
        namespace: str = "default",
        seconds: float = 3600,
        now: datetime = NOW,
    ) -> None:
        metadata = _metadata(name, segment, namespace, seconds, now)
        self.secrets[namespace, name] = SimpleNamespace(metadata=metadata)

    def list_namespaced_pod(self, namespace: str, **options: Any) -> Any:
        return self._list(self.pods, namespace, **options)

    def list_namespaced_secret(self, namespace: str, **options: Any) -> Any:
        return self._list(self.secrets, namespace, **options)

    def _list(
        self,
        items: dict[tuple[str, str], Any],
        namespace: str,
        *,
        label_selector: str,
        limit: int,
        _continue: str = "0",
    ) -> Any:
        assert SEGMENT_LABEL in label_selector
        if namespace in self.forbidden:
            raise ApiException(status=403, reason="Forbidden")
        found = [item for (place, _), item in sorted(items.items()) if place == namespace]
        start, end = int(_continue), int(_continue) + limit
        more = SimpleNamespace(_continue=str(end) if end < len(found) else None)
        return SimpleNamespace(items=found[start:end], metadata=more)

    def delete_namespaced_pod(
        self, name: str, namespace: str, *, grace_period_seconds: int | None
    ) -> None:
        if (namespace, name) not in self.pods:
            raise ApiException(status=404, reason="Not Found")
        self.grace[name] = grace_period_seconds
        del self.pods[namespace, name]

    def delete_namespaced_secret(self, name: str, namespace: str) -> None:
        if (namespace, name) not in self.secrets:
            raise ApiException(status=404, reason="Not Found")
        del self.secrets[namespace, name]


def _metadata(name: str, segment: str, namespace: str, seconds: float, now: datetime) -> Any:
    return SimpleNamespace(
        name=name,
        namespace=namespace,
        labels={**MANAGED_BY, SEGMENT_LABEL: segment},
        creation_timestamp=now - timedelta(seconds=seconds),
        deletion_timestamp=None,
    )
