"""Warm starts: forks a script from a server process that has already imported the heavy modules.

One warm fork server runs per Python interpreter, environment and list of imports. It is started
on demand, listens on a socket in a private folder, and exits after an idle period.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import select
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hpo_ops.protocol import DIRECTORY_VARIABLE
from hpo_ops.runners.local import _fork_server
from hpo_ops.runners.local._child_process import FORK_SERVER, Launch, NotStartedError, Process
from hpo_ops.runners.local._script_imports import Import, third_party_imports

logger = logging.getLogger(__name__)

PER_TRIAL = {DIRECTORY_VARIABLE, "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}
"""Environment variables that differ between trials and that modules do not read on import."""
START_SECONDS = 120.0
UNFIT_SECONDS = 600.0
"""Seconds after which a fork server whose preloading failed is started again."""


class WarmStarter:
    """Starts Python scripts as children of fork servers with preloaded imports.

    Args:
        runtime: The private folder for sockets; None for the user's default folder.
        idle_seconds: Time without connections after which a fork server exits.
    """

    def __init__(self, runtime: Path | None = None, *, idle_seconds: float = 120.0) -> None:
        self._runtime = runtime
        self._idle_seconds = idle_seconds

    def start(self, launch: Launch, log: BinaryIO) -> Process:
        """Starts a Python script as a child of a fork server that has preloaded its imports.

        The command must have the form ``python script.py arguments...``.

        Raises:
            NotStartedError: The command has another form, or no fork server could run it.
        """
        script = _script(launch)
        if script is None:
            raise NotStartedError("not a plain Python script")
        try:
            return self._start(launch, log, third_party_imports(script))
        except OSError as error:
            raise NotStartedError(str(error)) from error

    def stop(self) -> None:
        """Kills all fork servers with a socket in the private folder, and their children."""
        for path in _private_folder(self._runtime).glob("*.sock"):
            connection = _connect(path)
            if connection is not None:
                with connection, contextlib.suppress(ProcessLookupError):
                    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                    os.kill(struct.unpack("3i", peer)[0], signal.SIGKILL)
            path.unlink(missing_ok=True)

    def _start(self, launch: Launch, log: BinaryIO, imports: list[Import]) -> Process:
        base = _private_folder(self._runtime) / _key(launch, imports)
        unfit = base.with_suffix(".unfit")
        if unfit.exists() and time.time() - unfit.stat().st_mtime < UNFIT_SECONDS:
            raise NotStartedError(unfit.read_text())
        with _locked(base.with_suffix(".lock")):
            connection = _connect(base.with_suffix(".sock"))
            if connection is None:
                answer = self._start_fork_server(launch, imports, base)
                if answer != _fork_server.READY.decode():
                    unfit.write_text(answer)
                    raise NotStartedError(answer)
                connection = _connect(base.with_suffix(".sock"))
            if connection is None:
                raise NotStartedError("the fork server ended at once")
            process = Process(connection)
            process.request(launch, log)
            return process

    def _start_fork_server(self, launch: Launch, imports: list[Import], base: Path) -> str:
        environment = {
            name: value for name, value in launch.environment.items() if name not in PER_TRIAL
        }
        reading, writing = os.pipe()
        try:
            with base.with_suffix(".log").open("wb") as log:
                arguments = [
                    *("warm", str(base.with_suffix(".sock")), str(base.with_suffix(".lock"))),
                    *(str(self._idle_seconds), str(writing), json.dumps(imports)),
                ]
                subprocess.run(  # noqa: S603, our own file
                    [launch.argv[0], FORK_SERVER, *arguments],
                    check=False,
                    pass_fds=[writing],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    cwd="/",
                    start_new_session=True,
                )
            os.close(writing)
            writing = -1
            if not select.select([reading], [], [], START_SECONDS)[0]:
                return f"the imports took more than {START_SECONDS} s"
            return os.read(reading, 1024).decode() or "the fork server ended at once"
        finally:
            os.close(reading)
            if writing >= 0:
                os.close(writing)


def _script(launch: Launch) -> Path | None:
    if len(launch.argv) < 2 or not Path(launch.argv[0]).name.startswith("python"):
        return None
    script = launch.folder / launch.argv[1]
    return script if script.suffix == ".py" and script.is_file() else None


def _key(launch: Launch, imports: list[Import]) -> str:
    environment = sorted(item for item in launch.environment.items() if item[0] not in PER_TRIAL)
    text = json.dumps([launch.argv[0], environment, imports, os.getuid()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _private_folder(runtime: Path | None) -> Path:
    if runtime is None:
        given = os.environ.get("XDG_RUNTIME_DIR")
        runtime = Path(given or tempfile.gettempdir()) / f"hpo-{os.getuid()}"
    runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = runtime.lstat()
    is_private = status.st_uid == os.getuid() and not status.st_mode & 0o077
    if not stat.S_ISDIR(status.st_mode) or not is_private:
        raise NotStartedError(f"{runtime} is not a private folder of this user")
    return runtime


def _connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
