"""Plain pods for tests: start one, wait for what it does, read its log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kubernetes.client import ApiException, V1Pod

from tests.cluster.cluster import Cluster
from tests.cluster.layout import GPU

TOLERATE_GPU = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
TOLERATE_SPOT = {"key": "hpo-ops/spot", "operator": "Exists", "effect": "NoSchedule"}
POOL = "hpo-ops/pool"


@dataclass(frozen=True)
class PodRequest:
    """What a test wants of a pod."""

    name: str
    command: Sequence[str]
    image: str = ""
    pool: str | None = None
    gpus: int = 0
    tolerations: Sequence[Mapping[str, str]] = ()
    priority_class: str | None = None


class Pods:
    """The pods of one test."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._api = cluster.api()
        self._names: list[str] = []

    def start(self, request: PodRequest) -> None:
        limits = {GPU: str(request.gpus)} if request.gpus else {}
        container = {
            "name": "base",
            "image": request.image or self._cluster.images.shell,
            "command": list(request.command),
            "resources": {"limits": limits},
        }
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,  # a new namespace has no token for seconds
            "nodeSelector": {POOL: request.pool} if request.pool else {},
            "tolerations": [dict(it) for it in request.tolerations],
            "containers": [container],
            "priorityClassName": request.priority_class,
        }
        self._api.create_namespaced_pod(
            self._namespace, {"metadata": {"name": request.name}, "spec": spec}
        )
        self._names.append(request.name)

    def find(self, name: str) -> V1Pod | None:
        try:
            return self._api.read_namespaced_pod(name, self._namespace)
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def phase(self, name: str) -> str:
        pod = self.find(name)
        return "gone" if pod is None else str(pod.status.phase)

    def log(self, name: str) -> str:
        # The client turns what it reads into the text of a Python literal.
        answer = self._api.read_namespaced_pod_log(name, self._namespace, _preload_content=False)
        return str(answer.data.decode())

    def why_pending(self, name: str) -> str:
        """Returns what the scheduler says of a pod for which it has no place."""
        pod = self.find(name)
        conditions = [] if pod is None else pod.status.conditions or []
        return next((it.message or "" for it in conditions if it.reason == "Unschedulable"), "")

    def remove(self, name: str, *, grace_seconds: int = 1) -> None:
        try:
            self._api.delete_namespaced_pod(
                name, self._namespace, grace_period_seconds=grace_seconds
            )
        except ApiException as error:
            if error.status != 404:
                raise

    def remove_all(self) -> None:
        for name in self._names:
            self.remove(name, grace_seconds=0)
        for name in self._names:
            eventually(lambda name=name: self.phase(name) == "gone")  # type: ignore[misc]


def eventually(is_true: Callable[[], object], *, seconds: float = 60.0) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
        time.sleep(0.1)
