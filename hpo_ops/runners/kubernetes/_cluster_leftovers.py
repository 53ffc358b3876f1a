"""Lists and deletes the pods and secrets of segments in a cluster, for the reconciler.

A segment is one uninterrupted execution of a trial; the reconciler finds pods and secrets that
were left behind by a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hpo_ops.core.runner_resources import (
    ResourceList,
    ResourcesUnavailableError,
    RunnerResource,
)
from hpo_ops.runners.kubernetes._pod_names import MANAGED_BY, SEGMENT_LABEL
from hpo_ops.runners.kubernetes._pod_status import read_status

SELECTOR = ",".join([*(f"{key}={value}" for key, value in MANAGED_BY.items()), SEGMENT_LABEL])
"""Label selector of the pods and secrets that belong to segments."""
PAGE = 500
POD, SECRET = "pod", "secret"
"""Kinds of Kubernetes objects that a segment has."""


@dataclass
class Cluster:
    """The pods and secrets of segments in one cluster.

    Attributes:
        api: A ``CoreV1Api`` of the Kubernetes client.
        default_namespace: Namespace of the pods of studies that name no namespace.
        notes: One sentence for each list of pods or secrets that could not be read.
    """

    api: Any
    default_namespace: str
    notes: list[str] = field(default_factory=list)

    def look(self, namespaces: Sequence[str], now: datetime | None = None) -> ResourceList:
        now = now or datetime.now(UTC)
        resources: list[RunnerResource] = []
        seen = set()
        for namespace in dict.fromkeys([self.default_namespace, *namespaces]):
            # Secrets are listed first, so that the pod of each listed secret is listed, too.
            secrets = self._list("secrets", self.api.list_namespaced_secret, namespace)
            pods = self._list("pods", self.api.list_namespaced_pod, namespace)
            if pods is None:
                continue
            resources += [_pod(item, now) for item in pods]
            resources += [_secret(item, now) for item in secrets or ()]
            seen.add(namespace)
        return ResourceList(
            default_namespace=self.default_namespace,
            training_kind=POD,
            namespaces=frozenset(seen),
            resources=resources,
        )

    def _list(self, what: str, list_some: Any, namespace: str) -> list[Any] | None:
        """Lists a namespace's pods or secrets; on failure adds to `notes` and returns None."""
        try:
            return list(_pages(list_some, namespace))
        except Exception as error:  # noqa: BLE001, no right to, or no answer
            why = getattr(error, "reason", None) or error
            self.notes.append(f"{what} in the namespace {namespace} cannot be seen: {why}")
            return None

    def delete(self, kind: str, name: str, namespace: str, *, is_forced: bool) -> None:
        if kind == POD:
            grace = 0 if is_forced else None
            _without_404(
                lambda: self.api.delete_namespaced_pod(name, namespace, grace_period_seconds=grace)
            )
        else:
            _without_404(lambda: self.api.delete_namespaced_secret(name, namespace))


def connect_by_kubeconfig(namespace: str | None) -> Cluster:
    """Connects to the kubeconfig's cluster, or else to the cluster that this process runs in.

    Args:
        namespace: Namespace of the pods of studies that name no namespace; None for the
            kubeconfig's current namespace.

    Raises:
        ResourcesUnavailableError: No cluster is configured, or the package ``kubernetes`` is not
            installed.
    """
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise ResourcesUnavailableError("the package kubernetes is not installed") from error
    try:
        config.load_config()
    except Exception as error:  # a file that is missing or wrong in one of many ways
        raise ResourcesUnavailableError(f"no kubeconfig can be used ({error})") from error
    return Cluster(client.CoreV1Api(), namespace or _current_namespace(config) or "default")


def _current_namespace(config: Any) -> str | None:
    try:
        _, active = config.list_kube_config_contexts()
    except config.ConfigException:
        return None  # inside of a cluster
    found: str | None = active["context"].get("namespace")
    return found


def _pages(list_some: Any, namespace: str) -> Iterator[Any]:
    token: str | None = None
    while True:
        more = {"_continue": token} if token else {}
        answer = list_some(namespace, label_selector=SELECTOR, limit=PAGE, **more)
        yield from answer.items
        token = getattr(answer.metadata, "_continue", None)
        if not token:
            return


def _pod(pod: Any, now: datetime) -> RunnerResource:
    return RunnerResource(
        kind=POD,
        **_common(pod, now),
        is_leaving=pod.metadata.deletion_timestamp is not None,
        is_lost=read_status(pod, now).is_lost,
    )


def _secret(secret: Any, now: datetime) -> RunnerResource:
    return RunnerResource(kind=SECRET, **_common(secret, now), is_training=False)


def _common(item: Any, now: datetime) -> dict[str, Any]:
    metadata = item.metadata
    return {
        "name": metadata.name,
        "namespace": metadata.namespace,
        "segment": metadata.labels[SEGMENT_LABEL],
        "seconds": (now - metadata.creation_timestamp).total_seconds(),
    }


def _without_404(delete: Any) -> None:
    try:
        delete()
    except Exception as error:
        if getattr(error, "status", None) != 404:
            raise
