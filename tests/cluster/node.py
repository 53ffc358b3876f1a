"""One node: a containerd and a kubelet with folders, an address and a cgroup of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.layout import (
    BRIDGE,
    CGROUP,
    HOST,
    PAUSE_IMAGE,
    POOL_LABEL,
    SUBNET,
    Cache,
    Node,
)
from tests.cluster.machine import Program, Specification

# Folders whose names containerd, the kubelet and the network plugins do not let one choose.
FIXED_FOLDERS = (
    "/run/containerd",
    "/run/netns",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)
_KUBELET_PORT = 10250


@dataclass(frozen=True)
class NodeMachine:
    """The machine of one node."""

    node: Node
    cache: Cache
    kubeconfig: Path

    @property
    def folder(self) -> Path:
        return self.cache.run / self.node.name

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    def prepare(self) -> None:
        """Lays out the node's disk: images that share all files with the cache, and settings."""
        self.folder.mkdir()
        copy_store(self.cache.images / "containerd", self.folder / "containerd")
        for folder in ("cni", "kubelet", "state"):
            (self.folder / folder).mkdir()
        for name in FIXED_FOLDERS:
            self._own(name).mkdir(parents=True)
        (self.folder / "containerd.toml").write_text(self._containerd_settings(), encoding="utf-8")
        (self.folder / "cni" / "pods.conflist").write_text(self._network(), encoding="utf-8")
        (self.folder / "kubelet.json").write_text(self._kubelet_settings(), encoding="utf-8")
        # Pods have no name server.
        (self.folder / "resolv.conf").touch()

    def forget_memory(self) -> None:
        """Empties what a reboot empties."""
        self.socket.unlink(missing_ok=True)
        for folder in (
            self.folder / "state",
            self._own("/run/containerd"),
            self._own("/run/netns"),
        ):
            shutil.rmtree(folder)
            folder.mkdir()

    def specification(self) -> Specification:
        return Specification(
            folder=str(self.folder),
            covers=tuple((str(self._own(name)), name) for name in FIXED_FOLDERS),
            programs=(
                Program("containerd", self._containerd()),
                Program("kubelet", self._kubelet(), after=str(self.socket), niceness=-5),
            ),
        )

    def import_image(self, archive: Path) -> None:
        """Gives the node an image."""
        import_image(archive, programs=self.cache.kubernetes / "bin", socket=self.socket)

    def export_image(self, name: str, archive: Path) -> None:
        """Writes an image that the node has as an OCI archive."""
        ctr(self.cache.kubernetes / "bin", self.socket, "export", str(archive), name)

    def _own(self, name: str) -> Path:
        return self.folder / "covers" / name.strip("/").replace("/", "-")

    def _containerd(self) -> tuple[str, ...]:
        program = str(self.cache.program("containerd"))
        return (program, "--config", str(self.folder / "containerd.toml"))

    def _containerd_settings(self) -> str:
        return containerd_settings(
            root=self.folder / "containerd",
            state=self.folder / "state",
            socket=self.socket,
            cri=f"""
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  # Not every machine lets root lower the score by which the kernel chooses whom to kill.
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{self.cache.program("runc")}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.cache.kubernetes / "cni"}"
    conf_dir = "{self.folder / "cni"}"
""",
        )

    def _network(self) -> str:
        first, last = self.node.pod_range
        addresses = {"subnet": SUBNET, "rangeStart": first, "rangeEnd": last, "gateway": HOST}
        plugin = {
            "type": "bridge",
            "bridge": BRIDGE,
            # No gateway, no route: from a pod only the bridge can be reached.
            "isGateway": False,
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "dataDir": str(self.folder / "addresses"),
                "ranges": [[addresses]],
            },
        }
        content = {"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]}
        return json.dumps(content, indent=1)

    def _kubelet(self) -> tuple[str, ...]:
        taints = ",".join(self.node.taints)
        return (
            str(self.cache.program("kubelet")),
            f"--config={self.folder / 'kubelet.json'}",
            f"--kubeconfig={self.kubeconfig}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--cert-dir={self.folder / 'kubelet' / 'pki'}",
            *(["--container-runtime=remote"] if self.cache.version < (1, 24) else []),
            f"--container-runtime-endpoint=unix://{self.socket}",
            f"--hostname-override={self.node.name}",
            f"--node-ip={self.node.address}",
            f"--node-labels={POOL_LABEL}={self.node.pool}",
            *([f"--register-with-taints={taints}"] if taints else []),
            "--housekeeping-interval=30s",
        )

    def _kubelet_settings(self) -> str:
        pki = self.cache.run / "pki"
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.node.address,
            "port": _KUBELET_PORT,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(pki / "ca.crt")},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "tlsCertFile": str(pki / f"{self.node.name}.crt"),
            "tlsPrivateKeyFile": str(pki / f"{self.node.name}.key"),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{CGROUP}/{self.node.name}",
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "resolvConf": str(self.folder / "resolv.conf"),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            # A full disk of a developer's is no reason to put out pods, nor to remove images.
            "evictionHard": {"memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
            "kubeAPIQPS": 100,
            "kubeAPIBurst": 200,
            "maxPods": 60,
            "nodeLeaseDurationSeconds": 8,
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "10s",
            # A pod that writes too much is put out within seconds, not after a minute.
            "volumeStatsAggPeriod": "3s",
        }
        return json.dumps(settings, indent=1)


def containerd_settings(*, root: Path, state: Path, socket: Path, cri: str) -> str:
    """Returns the settings of a containerd, which are TOML."""
    disabled = ["aufs", "btrfs", "devmapper", "zfs"]
    names = [f"io.containerd.snapshotter.v1.{name}" for name in disabled]
    names += ["io.containerd.internal.v1.opt"]
    return f"""version = 2
root = "{root}"
state = "{state}"
disabled_plugins = {json.dumps(names)}
[grpc]
  address = "{socket}"
{cri}"""


def import_image(archive: Path, *, programs: Path, socket: Path) -> None:
    """Imports an image into the namespace of Kubernetes."""
    ctr(programs, socket, "import", str(archive))


def ctr(programs: Path, socket: Path, verb: str, *words: str) -> None:
    """Does something with an image of Kubernetes'."""
    address = ["--address", str(socket), "--namespace", "k8s.io"]
    done = subprocess.run(
        [programs / "ctr", *address, "images", verb, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{verb} of {' '.join(words)} failed: {done.stderr.strip()}")


def copy_store(source: Path, target: Path) -> None:
    """Copies a store of containerd's: databases for real, layers and blobs as links.

    Containers see layers through overlayfs, which never writes to them.
    """
    subprocess.run(["cp", "--archive", "--link", source, target], check=True)
    for database in target.glob("*/*.db"):
        original = source / database.relative_to(target)
        database.unlink()
        shutil.copy2(original, database)
