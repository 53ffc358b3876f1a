"""What the cluster adds to the host: a bridge, cgroups, empty folders; and how they go again."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.layout import BRIDGE, CGROUP, HARDWARE, HOST, PREFIX, Node
from tests.cluster.node import FIXED_FOLDERS

_CGROUPS = Path("/sys/fs/cgroup")
_CLEAN_SECONDS = 10.0


def hierarchies() -> list[Path]:
    """Returns where cgroups can be made: one place, or one for each controller (version 1)."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return _mounted("cgroup")


def make_bridge(nodes: Iterable[Node]) -> None:
    """Makes the bridge, with an address for the host and one for each node."""
    # Without one of its own, a bridge has the hardware address of one of its cables, and another
    # with each pod that comes or goes: the others would look for the host where it was before.
    _ip("link", "add", BRIDGE, "address", HARDWARE, "type", "bridge")
    for address in (HOST, *(node.address for node in nodes)):
        _ip("address", "add", f"{address}/{PREFIX}", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")


def remove_bridge() -> None:
    """Removes the bridge and the cables of pods that were plugged into it."""
    if not has_bridge():
        return
    # The kernel removes the cables of dead pods too, but not at once.
    for cable in _interfaces("master", BRIDGE):
        _ip("link", "delete", cable, check=False)
    _ip("link", "delete", BRIDGE)


def has_bridge() -> bool:
    """Says whether there is a bridge with our name."""
    return Path("/sys/class/net", BRIDGE).exists()


def make_cgroups(nodes: Iterable[Node]) -> None:
    """Makes a cgroup for each node, in which its kubelet makes those of pods."""
    names = [node.name for node in nodes]
    for hierarchy in hierarchies():
        top = hierarchy / CGROUP
        for cgroup in (top, *(top / name for name in names)):
            cgroup.mkdir(exist_ok=True)
            _hand_down(cgroup)


def remove_cgroups() -> None:
    """Removes all of the cluster's cgroups; the kernel needs a moment after the last process."""
    deadline = time.monotonic() + _CLEAN_SECONDS
    # Beside version 1 there may be a hierarchy of version 2, in which runc leaves empty ones.
    places = [it / CGROUP for it in _mounted("cgroup", "cgroup2")]
    while tops := [top for top in places if top.exists()]:
        for top in tops:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes are left in {tops[0]}")
        time.sleep(0.02)


def make_folders(record: Path) -> None:
    """Makes the folders that a node covers with its own, and first notes which were missing."""
    missing = [name for name in FIXED_FOLDERS if not Path(name).exists()]
    record.write_text(json.dumps(missing), encoding="utf-8")
    for name in missing:
        Path(name).mkdir(parents=True)


def remove_folders(record: Path) -> None:
    """Removes the folders that were made, unless someone else has put something into them."""
    if not record.exists():
        return
    for name in json.loads(record.read_text(encoding="utf-8")):
        try:
            Path(name).rmdir()
        except OSError:
            continue


def _mounted(*kinds: str) -> list[Path]:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return list({Path(mount[1]): None for mount in mounts if mount[2] in kinds})


def _hand_down(cgroup: Path) -> None:
    """Lets the cgroup use what its parent may use; a new one may use nothing at first."""
    parent = cgroup.parent
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (cgroup / name).exists() and not (cgroup / name).read_text().strip():
            (cgroup / name).write_text((parent / name).read_text())
    controllers = parent / "cgroup.controllers"
    if controllers.exists():
        enabled = " ".join(f"+{name}" for name in controllers.read_text().split())
        (parent / "cgroup.subtree_control").write_text(enabled)


def _interfaces(*selection: str) -> list[str]:
    listed = _ip("-json", "link", "show", *selection)
    return [interface["ifname"] for interface in json.loads(listed or "[]")]


def _ip(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
