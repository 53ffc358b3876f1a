"""Where the cluster's files are, and what it consists of: addresses, pools and nodes."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]

# Pods and nodes are on a bridge of their own, from which no route leads anywhere else.
BRIDGE = "hpo-k8s0"
PREFIX = 16
SUBNET = f"10.244.0.0/{PREFIX}"
HOST = "10.244.0.1"
HARDWARE = "02:68:70:6f:00:01"
CGROUP = "hpo-ops-cluster"

# The image that holds a pod's namespaces open, and the one for shell scripts.
PAUSE_IMAGE = "localhost/pause:1"
SHELL_IMAGE = "localhost/busybox:1"
# Python and the packages that hpo_ops needs in a pod; hpo_ops itself is a layer on top of it.
BASE_IMAGE = "localhost/hpo-ops-base:1"
IMAGE = "localhost/hpo-ops"
REQUIREMENTS = ("httpx", "numpy", "obstore", "pip", "pydantic", "pyyaml", "rich", "typer")

POOL_LABEL = "hpo-ops/pool"
GPU = "nvidia.com/gpu"
GPU_TAINT = f"{GPU}=present:NoSchedule"
SPOT_TAINT = "hpo-ops/spot=true:NoSchedule"

OTHER_PROGRAMS = "HPO_CLUSTER_PROGRAMS"
"""Names a folder with programs of another Kubernetes, or another etcd or containerd, to run."""


@dataclass(frozen=True)
class Node:
    """One node of the cluster.

    Attributes:
        name: What Kubernetes calls it.
        pool: The value of its label `hpo-ops/pool`.
        gpus: How many GPUs it claims to have; of a shared one, how many shares.
        taints: What a pod must tolerate to be placed here, as `key=value:effect`.
        number: Its place in the subnet.
    """

    name: str
    pool: str
    number: int
    gpus: int = 0
    taints: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        return f"10.244.0.{10 + self.number}"

    @property
    def pod_range(self) -> tuple[str, str]:
        """The first and the last address of its pods."""
        return f"10.244.{self.number}.2", f"10.244.{self.number}.250"


NODES = (
    Node("cpu-0", "cpu", 1),
    Node("gpu-0", "gpu", 2, gpus=2, taints=(GPU_TAINT,)),
    Node("gpu-shared-0", "gpu-shared", 3, gpus=4, taints=(GPU_TAINT,)),
    Node("spot-0", "spot", 4, gpus=2, taints=(GPU_TAINT, SPOT_TAINT)),
)


@dataclass(frozen=True)
class Cache:
    """The folder that outlives the cluster: what was built, and the state of the one that runs."""

    root: Path

    @classmethod
    def of_user(cls) -> Cache:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return cls(Path(base) / "hpo-ops" / "cluster")

    @property
    def kubernetes(self) -> Path:
        """The programs, named by the recipe that builds them."""
        return self.root / f"kubernetes-{_hash_files('packages.sh', 'kubernetes.sh')}"

    def program(self, name: str) -> Path:
        """A program: that of the user's folder where it has one, else the one that was built."""
        other = Path(os.environ.get(OTHER_PROGRAMS) or "/nowhere") / name
        return other if other.is_file() else self.kubernetes / "bin" / name

    @property
    def version(self) -> tuple[int, int]:
        """Which Kubernetes it is."""
        return _version(self.program("kubelet"))

    @property
    def images(self) -> Path:
        """The images without hpo_ops, unpacked in a store of containerd's."""
        return self.root / f"images-{_image_key()}"

    @property
    def is_built(self) -> bool:
        return self.kubernetes.is_dir() and self.images.is_dir()

    @property
    def run(self) -> Path:
        """The state of the running cluster: gone when it is down."""
        return self.root / "run"

    @property
    def lock(self) -> Path:
        return self.root / "lock"


def extra_requirements() -> tuple[str, ...]:
    """Returns what else to put into the image: `HPO_CLUSTER_PACKAGES`, separated by spaces."""
    return tuple(os.environ.get("HPO_CLUSTER_PACKAGES", "").split())


@cache
def _version(kubelet: Path) -> tuple[int, int]:
    said = subprocess.run([kubelet, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"v(\d+)\.(\d+)", said.stdout)
    if found is None:
        raise ValueError(f"{kubelet} --version does not say which it is: {said.stdout!r}")
    return int(found[1]), int(found[2])


def _hash_files(*names: str) -> str:
    digest = hashlib.sha256()
    for name in names:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:12]


def _image_key() -> str:
    pins = (PROJECT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    wanted = [pin for pin in pins if pin.split("==")[0].lower() in REQUIREMENTS]
    recipe = [
        _hash_files("packages.sh", "rootfs.sh", "oci.py", "kubernetes.sh"),
        *REQUIREMENTS,
        *wanted,
        *extra_requirements(),
    ]
    return hashlib.sha256("\n".join(recipe).encode()).hexdigest()[:12]
