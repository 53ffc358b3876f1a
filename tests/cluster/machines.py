"""Starts machines, and ends them for certain.

All processes of a machine carry its name and its cluster's folder in their environment, so they
are found whoever has started them, also when that one was killed before it could write anything.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.cluster.layout import HERE
from tests.cluster.machine import Specification

_CLUSTER = "HPO_TEST_CLUSTER"
_MACHINE = "HPO_TEST_MACHINE"
_END_SECONDS = 20.0


def start_machine(
    name: str, specification: Specification, *, run: Path, path: str, libraries: Path
) -> None:
    """Starts a machine that goes on after the process that starts it.

    Args:
        name: Its name in the cluster.
        specification: What it is made of.
        run: The folder of the running cluster.
        path: Where its programs find others.
        libraries: Shared libraries that the host may lack.
    """
    file = Path(specification.folder) / "machine.json"
    specification.write(file)
    namespaces = ["--mount", "--propagation=private", "--pid", "--mount-proc"]
    with (Path(specification.folder) / "machine.log").open("ab") as log:
        subprocess.Popen(
            ["unshare", *namespaces, "--fork", "--kill-child", "--",
             sys.executable, "-I", str(HERE / "machine.py"), str(file)],
            env={
                "PATH": path,
                "HOME": "/root",
                "LD_LIBRARY_PATH": str(libraries),
                _CLUSTER: str(run),
                _MACHINE: name,
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )  # fmt: skip


def find_processes(run: Path, *, machine: str | None = None) -> list[psutil.Process]:
    """Returns the live processes of a cluster, or of one of its machines."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            is_alive = process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            continue
        is_ours = environment.get(_CLUSTER) == str(run)
        if is_alive and is_ours and machine in (None, environment.get(_MACHINE)):
            found.append(process)
    return found


def end_machines(run: Path, *, machine: str | None = None) -> None:
    """Ends a cluster's machines, or one, at once, as when the power goes."""
    deadline = time.monotonic() + _END_SECONDS
    while processes := find_processes(run, machine=machine):
        # The first one in a namespace takes the others with it; `unshare` is killed as well, so
        # that a machine that is just being started ends too.
        for process in processes:
            _kill(process)
        if time.monotonic() > deadline:
            left = ", ".join(str(process.pid) for process in processes)
            raise RuntimeError(f"{run}: still running after SIGKILL: {left}")
        time.sleep(0.1)


def _kill(process: psutil.Process) -> None:
    try:
        # psutil compares the start time first, so that this cannot hit a reused pid.
        process.kill()
        os.waitpid(process.pid, os.WNOHANG)
    except (psutil.NoSuchProcess, ChildProcessError, ProcessLookupError):
        pass
