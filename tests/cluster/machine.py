"""The first process of one machine of the cluster, in process and mount namespaces of its own.

Run as `python machine.py SPECIFICATION`. It covers folders of the host's with the machine's own,
starts the programs, restarts those that end, and buries orphans. When it is killed, the kernel
kills all others in its namespace, containers included: nothing of a machine outlives it. It uses
the standard library only, and little of that, since there is one for each node.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

_RESTART_SECONDS = 1.0


@dataclass(frozen=True)
class Program:
    """One program of a machine.

    Attributes:
        name: Names its log.
        command: What to run.
        after: The socket that must answer first: a path, or `address:port`.
        niceness: Below zero, it comes before others on a busy machine.
    """

    name: str
    command: tuple[str, ...]
    after: str = ""
    niceness: int = 0


@dataclass(frozen=True)
class Specification:
    """What a machine is made of.

    Attributes:
        folder: Where logs go.
        covers: Pairs of a folder and the one over which it is mounted.
        in_memory: Folders that are lost with the machine.
        programs: What runs on it.
    """

    folder: str
    covers: tuple[tuple[str, str], ...] = ()
    in_memory: tuple[str, ...] = ()
    programs: tuple[Program, ...] = ()

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Specification:
        content = json.loads(path.read_text(encoding="utf-8"))
        programs = content.pop("programs")
        return cls(**content, programs=tuple(Program(**program) for program in programs))


def main(path: Path) -> None:
    """Runs a machine until it is killed."""
    specification = Specification.read(path)
    for own, covered in specification.covers:
        subprocess.run(["mount", "--bind", own, covered], check=True)
    for folder in specification.in_memory:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", folder], check=True)
    waiting = list(specification.programs)
    running: dict[int, Program] = {}
    while True:
        for program in [it for it in waiting if not it.after or _answers(it.after)]:
            waiting.remove(program)
            running[_start(program, Path(specification.folder))] = program
        time.sleep(0.1 if waiting else 0.5)
        for pid in _bury():
            if pid in running:
                waiting.append(running.pop(pid))
                time.sleep(_RESTART_SECONDS)


def _start(program: Program, folder: Path) -> int:
    with (folder / f"{program.name}.log").open("ab") as log:
        process = subprocess.Popen(
            list(program.command), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    os.setpriority(os.PRIO_PROCESS, process.pid, program.niceness)
    # Its end is noticed by `_bury`, not by the object.
    process.returncode = 0
    return process.pid


def _bury() -> list[int]:
    """Takes note of all that has ended, orphans of others included."""
    ended: list[int] = []
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append(pid)


def _answers(place: str) -> bool:
    is_path = place.startswith("/")
    address = place if is_path else (place.split(":")[0], int(place.split(":")[1]))
    with socket.socket(socket.AF_UNIX if is_path else socket.AF_INET) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(address) == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
