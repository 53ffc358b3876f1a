"""A Kubernetes as the tests see it: our own on this machine, or another by its KUBECONFIG."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kubernetes import client, config

from tests.cluster.availability import ClusterUnavailableError, why_not_here
from tests.cluster.build import Say, locked
from tests.cluster.forward import Valve, forwarded
from tests.cluster.layout import HOST, POOL_LABEL, SHELL_IMAGE, Cache
from tests.cluster.local import LocalCluster

KUBECONFIG = "KUBECONFIG"
# For another cluster: where its pods reach this machine, and images that it can pull.
EXTERNAL_HOST = "HPO_TEST_HOST"
EXTERNAL_IMAGE = "HPO_TEST_IMAGE"
EXTERNAL_SHELL_IMAGE = "HPO_TEST_SHELL_IMAGE"


@dataclass(frozen=True)
class Images:
    """The images that pods of tests can use without a pull.

    Attributes:
        shell: BusyBox: sh, sleep, pgrep, wget; also for the sidecar that holds an XCom.
        python: Python 3.11 with the present hpo_ops, numpy, and what pods need of hpo_ops'
            dependencies. Not torch.
    """

    shell: str
    python: str


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        kubeconfig: The credentials of its administrator.
        host: The address at which pods reach this machine; None when there is none.
        images: What pods can run.
        pools: The names of nodes by the value of their label `hpo-ops/pool`.
        local: Our own cluster, whose nodes can be lost; None for another one.
    """

    kubeconfig: Path
    host: str | None
    images: Images
    pools: dict[str, tuple[str, ...]]
    local: LocalCluster | None

    def api(self) -> client.CoreV1Api:
        """Returns a client of the core API."""
        return client.CoreV1Api(config.new_client_from_config(str(self.kubeconfig)))

    @contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """Makes a namespace that begins with a name, and removes it with all its pods."""
        api = self.api()
        chosen = f"hpo-test-{name}-{secrets.token_hex(3)}"
        api.create_namespace({"metadata": {"name": chosen}})
        try:
            _wait_for_account(api, chosen)
            yield chosen
        finally:
            for pod in api.list_namespaced_pod(chosen).items:
                api.delete_namespaced_pod(pod.metadata.name, chosen, grace_period_seconds=0)
            api.delete_namespace(chosen)

    def expose(self, port: int, *, valve: Valve | None = None) -> AbstractContextManager[int]:
        """Lets pods reach, at `host`, a port on which a server listens on loopback only.

        Args:
            port: The server's port, and the one at `host`; a free one there with a valve.
            valve: Holds back what passes while it is closed.
        """
        if self.host is None:
            raise ValueError(f"pods cannot reach this machine: {EXTERNAL_HOST} is not set")
        return forwarded(port, address=self.host, listen=0 if valve else None, valve=valve)


@contextmanager
def running_cluster(say: Say) -> Iterator[Cluster]:
    """Finds the cluster of KUBECONFIG, or starts our own; the latter ends if it was started here.

    Raises:
        ClusterUnavailableError: There is none, with the reason.
    """
    if os.environ.get(KUBECONFIG):
        yield _external(Path(os.environ[KUBECONFIG].split(os.pathsep)[0]))
        return
    reason = why_not_here()
    if reason is not None:
        raise ClusterUnavailableError(f"{reason}; or set {KUBECONFIG} to one that runs")
    cache = Cache.of_user()
    if not cache.is_built:
        raise ClusterUnavailableError("it is not built: `make test-k8s` and `make cluster-up` do")
    with in_use(cache, say):
        local = LocalCluster(cache)
        was_up = local.is_up()
        local.up(say)
        try:
            images = Images(shell=SHELL_IMAGE, python=local.import_present_code())
            yield Cluster(local.kubeconfig, HOST, images, _find_pools(local.api()), local)
        finally:
            if not was_up:
                local.down()


def in_use(cache: Cache, say: Say) -> AbstractContextManager[None]:
    """Keeps our own cluster for one user: two would stop it, or lose nodes, under each other."""
    return locked(cache.lock, say, "another test run uses the cluster: waiting for it")


def _external(kubeconfig: Path) -> Cluster:
    images = Images(
        shell=os.environ.get(EXTERNAL_SHELL_IMAGE, "busybox:1.36"),
        python=os.environ.get(EXTERNAL_IMAGE, ""),
    )
    api = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
    pools = _find_pools(api)
    return Cluster(kubeconfig, os.environ.get(EXTERNAL_HOST), images, pools, None)


def _find_pools(api: client.CoreV1Api) -> dict[str, tuple[str, ...]]:
    pools: dict[str, tuple[str, ...]] = {}
    for node in api.list_node(label_selector=POOL_LABEL, _request_timeout=10).items:
        pool = node.metadata.labels[POOL_LABEL]
        pools[pool] = (*pools.get(pool, ()), node.metadata.name)
    return pools


def _wait_for_account(api: client.CoreV1Api, namespace: str) -> None:
    """Waits for the account that pods need; it is made a moment after the namespace."""
    selector = "metadata.name=default"
    while not api.list_namespaced_service_account(namespace, field_selector=selector).items:
        time.sleep(0.05)
