"""Our own cluster on this machine: up, down, and the loss and return of a node."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import urllib3
from kubernetes import client, config
from kubernetes.client import ApiException

from hpo_ops.stack._free_ports import choose_port
from tests.cluster import host
from tests.cluster.availability import ClusterUnavailableError
from tests.cluster.build import PATH, Say, wait_for_containerd
from tests.cluster.control_plane import NAME, ControlPlane
from tests.cluster.layout import GPU, NODES, Cache, Node
from tests.cluster.machines import end_machines, find_processes, start_machine
from tests.cluster.node import NodeMachine
from tests.cluster.present_code import write_present_image

_START_SECONDS = 180.0


class LocalCluster:
    """The one cluster of ours that this machine can run at a time."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    @property
    def kubeconfig(self) -> Path:
        return self._cache.run / "kubeconfig"

    def is_up(self) -> bool:
        """Says whether it was started to the end and all of its nodes are ready."""
        if not self._ready.exists() or not find_processes(self._cache.run, machine=NAME):
            return False
        try:
            return all(is_ready for _, is_ready in self.status())
        except (ApiException, OSError, urllib3.exceptions.HTTPError):
            return False

    def is_started(self) -> bool:
        """Says whether there is anything of a cluster on this machine."""
        return self._cache.run.exists() or host.has_bridge()

    def up(self, say: Say) -> None:
        """Starts the cluster and returns when pods can be placed on every node."""
        if self.is_up():
            say("the cluster is up already")
            return
        if self.is_started():
            say("removing what is left of an earlier cluster")
            self.down()
        began = time.monotonic()

        def tell(what: str) -> None:
            say(f"  {time.monotonic() - began:4.0f} s  {what}")

        try:
            self._start(tell)
        except BaseException:
            self._keep_logs(say)
            self.down()
            raise
        tell(f"ready: export KUBECONFIG={self.kubeconfig}")

    def down(self) -> None:
        """Ends everything and removes what was added to this machine, however it was left."""
        run = self._cache.run
        end_machines(run)
        host.remove_bridge()
        host.remove_cgroups()
        host.remove_folders(self._folders)
        if run.exists():
            shutil.rmtree(run)

    def status(self) -> list[tuple[str, bool]]:
        """Returns the nodes that Kubernetes knows, and whether each is ready."""
        nodes = self.api().list_node(_request_timeout=5).items
        return [(node.metadata.name, _is_ready(node)) for node in nodes]

    def api(self) -> client.CoreV1Api:
        """Returns a client of the cluster's API."""
        return client.CoreV1Api(config.new_client_from_config(str(self.kubeconfig)))

    def import_present_code(self) -> str:
        """Gives all nodes an image of hpo_ops as it is now, and returns its name."""
        with tempfile.TemporaryDirectory(prefix="hpo-image-") as folder:
            name, archive = write_present_image(self._cache, Path(folder))
            kept = self._images / f"{name.rpartition(':')[2]}.tar"
            shutil.copy2(archive, kept)
        for node in NODES:
            self._machine(node).import_image(kept)
        return name

    def export_image(self, name: str, archive: Path) -> None:
        """Writes an image that the nodes have as an OCI archive."""
        self._machine(NODES[0]).export_image(name, archive)

    def import_image(self, archive: Path, *, node: str) -> None:
        """Gives a node an image, as a pull from a registry would."""
        self._machine(_node(node)).import_image(archive)

    def lose(self, name: str) -> None:
        """Ends a node at once, with all its pods; Kubernetes has to find out by itself."""
        end_machines(self._cache.run, machine=_node(name).name)

    def forget(self, name: str) -> None:
        """Removes a lost node from Kubernetes, as a cloud does with a machine it took back."""
        self.api().delete_node(_node(name).name)

    def replace(self, name: str) -> None:
        """Puts a new machine in place of a lost node, and waits until it is ready."""
        machine = self._machine(_node(name))
        shutil.rmtree(machine.folder)
        machine.prepare()
        self._return(machine)
        for image in self._images.iterdir():
            machine.import_image(image)

    def reboot(self, name: str) -> None:
        """Starts a lost node again with the disk it had, and waits until it is ready.

        Its pods have failed; those that Kubernetes had given up are gone a minute later.
        """
        machine = self._machine(_node(name))
        machine.forget_memory()
        self._return(machine)

    def _return(self, machine: NodeMachine) -> None:
        before = time.time()
        self._start_node(machine)
        self._admit([machine.node], since=before)

    @property
    def _images(self) -> Path:
        return self._cache.run / "images"

    @property
    def _ready(self) -> Path:
        return self._cache.run / "ready"

    @property
    def _folders(self) -> Path:
        return self._cache.run / "folders.json"

    def _machine(self, node: Node) -> NodeMachine:
        return NodeMachine(node, self._cache, self.kubeconfig)

    def _start(self, say: Say) -> None:
        self._images.mkdir(parents=True, mode=0o700)
        host.make_folders(self._folders)
        host.make_cgroups(NODES)
        host.make_bridge(NODES)
        plane = ControlPlane(
            cache=self._cache,
            api_port=choose_port(16443),
            etcd_port=choose_port(16450, offsets=(0, 1)),
        )
        authority = plane.prepare()
        start_machine(
            NAME,
            plane.specification(),
            run=self._cache.run,
            path=PATH,
            libraries=self._cache.kubernetes / "lib",
        )
        machines = [self._machine(node) for node in NODES]
        for machine in machines:
            authority.make_server(machine.node.name, addresses=[machine.node.address])
            machine.prepare()
            self._start_node(machine)
        say("started the control plane and the nodes")
        for machine in machines:
            wait_for_containerd(machine.socket, self._cache.kubernetes / "bin")
        self._wait("the API server", self._is_api_ready)
        say("the API server answers")
        self._admit(NODES)
        self._wait("the default service account", self._has_service_account)
        self._ready.touch()

    def _start_node(self, machine: NodeMachine) -> None:
        start_machine(
            machine.node.name,
            machine.specification(),
            run=self._cache.run,
            path=f"{self._cache.kubernetes / 'bin'}:{PATH}",
            libraries=self._cache.kubernetes / "lib",
        )

    def _admit(self, nodes: Iterable[Node], *, since: float = 0.0) -> None:
        """Waits until nodes are ready, and gives them their GPUs."""
        api = self.api()
        for node in nodes:
            self._wait(f"node {node.name}", partial(_is_admitted, api, node, since))
            if node.gpus:
                _set_gpus(api, node)
        for node in nodes:
            self._wait(f"the GPUs of {node.name}", partial(_is_whole, api, node))

    def _is_api_ready(self) -> bool:
        return bool(self.api().list_namespace(_request_timeout=5).items)

    def _has_service_account(self) -> bool:
        self.api().read_namespaced_service_account("default", "default", _request_timeout=5)
        return True

    def _wait(self, what: str, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        last = ""
        while True:
            try:
                if is_done():
                    return
            except (ApiException, OSError, urllib3.exceptions.HTTPError) as error:
                last = f": {error}"
            if time.monotonic() > deadline:
                raise ClusterUnavailableError(
                    f"{what} is not ready after {_START_SECONDS:.0f} s{last}"
                )
            time.sleep(0.1)

    def _keep_logs(self, say: Say) -> None:
        """Keeps the logs of a cluster that did not start, which `down` would remove."""
        kept = self._cache.root / "failed-start"
        shutil.rmtree(kept, ignore_errors=True)
        for log in self._cache.run.glob("*/*.log"):
            target = kept / log.relative_to(self._cache.run)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(log, target)
        say(f"the cluster did not start; its logs are in {kept}")


def _node(name: str) -> Node:
    for node in NODES:
        if node.name == name:
            return node
    raise ValueError(f"there is no node {name}, but {', '.join(node.name for node in NODES)}")


def _is_ready(node: client.V1Node) -> bool:
    conditions = {it.type: it.status for it in node.status.conditions or []}
    return conditions.get("Ready") == "True"


def _is_admitted(api: client.CoreV1Api, node: Node, since: float) -> bool:
    """Says whether a node is ready by a word of its present kubelet."""
    seen = api.read_node(node.name, _request_timeout=5)
    heard = [it.last_heartbeat_time for it in seen.status.conditions if it.type == "Ready"]
    blocked = [it.key for it in seen.spec.taints or [] if it.key.startswith("node.kubernetes.io/")]
    return _is_ready(seen) and not blocked and heard[0].timestamp() >= int(since)


def _set_gpus(api: client.CoreV1Api, node: Node) -> None:
    """Says that a node has GPUs, as NVIDIA's device plugin would."""
    amounts = {GPU: str(node.gpus)}
    patch = {"status": {"capacity": amounts, "allocatable": amounts}}
    api.patch_node_status(node.name, patch, _request_timeout=5)


def _is_whole(api: client.CoreV1Api, node: Node) -> bool:
    allocatable = api.read_node(node.name, _request_timeout=5).status.allocatable
    return int(allocatable.get(GPU, "0")) == node.gpus
