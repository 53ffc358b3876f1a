"""Says whether a cluster can be had on this machine, and if not, why."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

from tests.cluster.host import hierarchies

REQUIRE = "HPO_REQUIRE_CLUSTER"
_TOOLS = ("apt-get", "chroot", "cp", "dpkg-deb", "ip", "mount", "tar", "unshare")


class ClusterUnavailableError(Exception):
    """No cluster can be had here; the message says why."""


def is_required() -> bool:
    """Says whether tests must fail rather than be skipped where there is no cluster."""
    return os.environ.get(REQUIRE, "") not in ("", "0")


def why_not_here() -> str | None:
    """Returns what keeps this machine from running our own cluster, or None."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"this is {platform.system()} on {platform.machine()}, not Linux on x86_64"
    if not Path("/etc/debian_version").exists():
        return "this is not Debian, whose packages it is built from"
    if os.geteuid() != 0:
        return "only root can start one"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"commands are missing: {', '.join(missing)} (apt-get install iproute2 …)"
    if "overlay" not in Path("/proc/filesystems").read_text(encoding="utf-8").split():
        return "the kernel has no overlayfs"
    closed = [str(it) for it in hierarchies() if not os.access(it, os.W_OK)]
    if closed or not hierarchies():
        return f"cgroups cannot be made in {', '.join(closed) or '/sys/fs/cgroup'}"
    return None
