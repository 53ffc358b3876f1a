"""The guard of a sandbox: a script that starts users' code in a child process and confines it.

The script's only argument is a JSON object, which `sandbox` writes. It imports the standard
library only. The guard is the parent process of the users' code and a child of the platform:

    platform ── guard (this script) ── users' code, confined

The guard is the subreaper (``PR_SET_CHILD_SUBREAPER``) of all processes that the users' code
starts, so that no process can escape by becoming a daemon. The lifeline is a pipe between the
platform and the guard; it is also closed when the platform is killed. When the users' code ends,
or the platform closes the lifeline, the guard kills all its descendant processes and exits.

The users' code runs as another user and group if the platform is root, without capabilities, with
limits on memory, processes and file sizes, and in its own session. It inherits only three pipes,
as standard input, output and error, and descriptors of the interpreter's folders. If the kernel
has Landlock (Linux 5.13), the users' code can read only listed paths, write only to its own folder
and to paths that the operator lists, and cannot inspect processes outside the sandbox. From
version 6 of Landlock it cannot signal processes outside the sandbox either.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import struct
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

CANNOT_START = 126
KILL_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_CHILD_SUBREAPER = 36
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULESET_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
_RIGHTS_BY_VERSION = (0, 13, 14, 15, 15, 16)
"""The number of file-access rights that each ABI version of Landlock knows, by version."""
_SCOPES = 0b11
"""Landlock's scope flags for abstract Unix sockets and signals; they exist from version 6."""
_DEVICES = ("null", "zero", "full", "random", "urandom")
_libc = ctypes.CDLL(None, use_errno=True)

# A program that adds site-packages folders, which a relocated interpreter does not find itself.
_WITH_SITES = (
    "import json, runpy, site, sys; argv = sys.argv; "
    "[site.addsitedir(folder) for folder in json.loads(argv[1])]; "
    "sys.argv = argv[2:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


def main(text: str) -> None:
    """Starts the users' code, waits, and exits with the exit code of the users' code.

    The users' code is killed when the platform's process closes its end of the lifeline, the
    pipe that it holds open while it is alive.

    Args:
        text: The JSON object that `Sandbox` writes: what to run, as which user, and with which
            access.
    """
    order: dict[str, Any] = json.loads(text)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        _become_users_code(order, guard)
    for descriptor in range(3):  # only the users' code may hold the pipes
        os.close(descriptor)
    events = select.poll()  # select() takes no descriptor above 1024
    events.register(os.pidfd_open(child), select.POLLIN)
    events.register(order["lifeline"], select.POLLIN)
    events.poll()
    status = _kill_and_reap(child)
    shutil.rmtree(order["private"], ignore_errors=True)  # the platform may have died
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _kill_and_reap(child: int) -> int:
    """Kills all descendants of this process; returns the wait status of the users' code.

    Args:
        child: The process id of the users' code.
    """
    status = int(signal.SIGKILL)
    until = time.monotonic() + KILL_SECONDS
    while time.monotonic() < until:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, ended = os.waitpid(-1, 0)
        except ChildProcessError:
            break  # no child is left that could start another
        if pid == child:
            status = ended
    return status


def _children() -> list[int]:
    """Returns the process ids of the guard's children, including orphans that it adopted."""
    found: list[int] = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                stat = Path("/proc", entry.name, "stat").read_text(errors="replace")
                if int(stat.rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(entry.name))
    return found


def _become_users_code(order: Mapping[str, Any], guard: int) -> NoReturn:
    try:
        os.setsid()
        os.close(order["lifeline"])
        handed = {
            folder: os.open(folder, os.O_PATH)
            for folder in order["handed_over"]
            if os.path.isdir(folder)  # noqa: PTH112  strings throughout
        }
        rules = _make_ruleset(order["readable"], order["writable"])
        _set_limits(order["limits"])
        for capability in range(64):  # so that root has none of them after the next execve
            _libc.prctl(_PR_CAPBSET_DROP, capability)
        if order["uid"] is not None:
            os.setgroups([])
            os.setresgid(order["gid"], order["gid"], order["gid"])
            os.setresuid(order["uid"], order["uid"], order["uid"])
        _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        if rules is not None:
            _check(_libc.syscall(_RESTRICT_SELF, rules, 0), "Landlock")
            os.close(rules)
        # Set after the change of user, which would clear it.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(CANNOT_START)
        os.umask(0o077)
        os.chdir(order["folder"])
        _execute(order, handed)
    except BaseException as error:  # noqa: BLE001  a forked process must not run the parent's code
        os.write(2, f"the sandbox cannot start: {error}\n".encode())
        os._exit(CANNOT_START)


def _execute(order: Mapping[str, Any], handed: Mapping[str, int]) -> NoReturn:
    """Replaces the guard's forked child by a Python interpreter that runs the users' code.

    The sandbox's user may not be able to read the interpreter's folders, for example if they are
    in root's home. They are then accessed through ``/proc/<pid>/fd/<descriptor>``, with
    descriptors that were opened before the change of user.

    Args:
        order: The guard's argument, parsed from JSON.
        handed: Descriptors of the interpreter's folders, by path; opened before the change of
            user.
    """
    environment = dict(order["environment"])
    places = {}
    for folder, descriptor in handed.items():
        os.set_inheritable(descriptor, True)
        # Not /proc/self: processes that the users' code starts do not have these descriptors.
        places[folder] = f"/proc/{os.getpid()}/fd/{descriptor}"
    if path := environment.get("PYTHONPATH"):
        environment["PYTHONPATH"] = ":".join(_placed(item, places) for item in path.split(":"))
    script: list[str] = list(order["script"])
    python: str = order["python"]
    needed = (order["home"], script[0], *order["sites"])
    is_reachable = os.access(python, os.X_OK) and all(os.access(p, os.R_OK) for p in needed)
    if not handed or is_reachable:
        os.execve(python, [python, "-P", *script], environment)  # noqa: S606  our own script
    home = places[order["home"]]
    inner = os.path.relpath(order["real_python"], order["home"])
    python = f"{home}/{inner}"
    environment["PYTHONHOME"] = home
    library = [f"{home}/lib", *filter(None, [environment.get("LD_LIBRARY_PATH")])]
    environment["LD_LIBRARY_PATH"] = ":".join(library)
    sites = json.dumps([_placed(folder, places) for folder in order["sites"]])
    script = [_placed(script[0], places), *script[1:]]
    command = [python, "-P", "-c", _WITH_SITES, sites, *script]
    os.execve(python, command, environment)  # noqa: S606  users' code, in its sandbox


def _placed(path: str, places: Mapping[str, str]) -> str:
    """Returns a path under which the sandbox's user can access a file or folder.

    A path that the user cannot read is replaced by a path through the open descriptor of one of
    the interpreter's folders. A readable path, or a path in none of these folders, is returned
    unchanged.

    Args:
        path: Path of the file or folder.
        places: For each of the interpreter's folders, its path in ``/proc/<pid>/fd``.
    """
    if os.access(path, os.R_OK):
        return path
    for folder, place in places.items():
        if path == folder or path.startswith(f"{folder}/"):
            return place + path[len(folder) :]
    return path


def _set_limits(limits: Mapping[str, int]) -> None:
    for name, value in {"CORE": 0, **limits}.items():
        kind: int = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (allowed, allowed))


def _make_ruleset(readable: Iterable[str], writable: Iterable[str]) -> int | None:
    """Creates a Landlock ruleset that allows access only to the given paths and to some devices.

    Returns:
        The descriptor of the ruleset, or None if the kernel lacks Landlock.
    """
    version: int = _libc.syscall(_CREATE_RULESET, None, 0, _RULESET_VERSION)
    if version < 1:
        return None
    every = (1 << _RIGHTS_BY_VERSION[min(version, len(_RIGHTS_BY_VERSION) - 1)]) - 1
    attributes = struct.pack("=QQQ", every, 0, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules: int = _libc.syscall(_CREATE_RULESET, attributes, size, 0)
    _check(rules, "Landlock's ruleset")
    reading = _EXECUTE | _READ_FILE | _READ_DIR
    for path in readable:
        _allow(rules, path, reading)
    for path in writable:
        _allow(rules, path, every)
    for name in _DEVICES:
        _allow(rules, f"/dev/{name}", every)
    return rules


def _allow(rules: int, path: str, access: int) -> None:
    """Adds a rule that allows access to a path and to all paths below it.

    A path that cannot be opened is skipped.

    Args:
        rules: The descriptor of the Landlock ruleset.
        path: The file or folder.
        access: The allowed access rights, as Landlock's bit mask.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):  # noqa: PTH112  strings throughout
        access &= _FOR_FILES
    rule = struct.pack("=Qi", access, descriptor)
    _check(_libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, rule, 0), f"Landlock's rule of {path}")
    os.close(descriptor)


def _check(answer: int, what: str) -> None:
    if answer < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main(sys.argv[1])
