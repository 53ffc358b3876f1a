"""Starts and controls a training process through a fork server, which is its parent process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hpo_ops.runners.local import _fork_server

START_SECONDS = 60.0
CLOSE_SECONDS = 5.0
FORK_SERVER = str(Path(_fork_server.__file__).resolve())


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The command, working directory and environment of a process to start.

    Attributes:
        argv: The program and its arguments; ``python`` is already replaced by the path of the
            interpreter.
        folder: The working directory.
        environment: All environment variables of the process.
    """

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


class NotStartedError(RuntimeError):
    """Raised if the fork server could not start the process."""


class Process:
    """A training process and its process group.

    The group is killed when this object is closed, and when the runner's process is killed.

    Args:
        connection: The connection to the fork server.
        guard: The fork server's process if it serves only this training; None if the fork server
            serves several trainings.
    """

    def __init__(
        self, connection: socket.socket, *, guard: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._connection = connection
        self._guard = guard
        self._buffer = b""
        self._exit_code: int | None = None
        self._pid: int | None = None

    @property
    def pid(self) -> int | None:
        """The process id, which is also the id of the process group; None before the start."""
        return self._pid

    def request(self, launch: Launch, log: BinaryIO) -> None:
        """Sends the fork server a request to start the process, and waits for the process id.

        Args:
            launch: The command, working directory and environment.
            log: The file to which the process writes its output.

        Raises:
            NotStartedError: The fork server did not start the process. The connection is closed.
        """
        try:
            message = self._ask(launch, log)
        except OSError as error:
            self.close()
            raise NotStartedError(f"the fork server is gone ({error})") from error
        if message is None or "pid" not in message:
            self.close()
            raise NotStartedError("the fork server did not start the process")
        self._pid = message["pid"]

    def _ask(self, launch: Launch, log: BinaryIO) -> dict[str, int] | None:
        body = json.dumps(
            {
                "argv": list(launch.argv),
                "folder": str(launch.folder),
                "environment": dict(launch.environment),
            }
        ).encode()
        header = _fork_server.HEADER.pack(len(body))
        socket.send_fds(self._connection, [header], [log.fileno()])
        self._connection.sendall(body)
        return self._read(START_SECONDS)

    def wait(self, timeout_seconds: float) -> int | None:
        """Waits for the end of the process.

        Returns:
            The exit code, or the negative number of the signal that ended the process; None if
            the process still runs after the timeout.
        """
        if self._exit_code is None:
            try:
                message = self._read(timeout_seconds)
            except OSError:
                self._exit_code = self._kill_orphans()
            else:
                self._exit_code = message["exit_code"] if message is not None else None
        return self._exit_code

    def terminate(self) -> None:
        """Sends SIGTERM only to the training process, which may need its children to save."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL to the whole process group."""
        self._send(signal.SIGKILL)

    def close(self) -> None:
        """Kills the process group if it still runs, and closes the connection."""
        if self._exit_code is None and self._pid is not None:
            self.kill()
            self.wait(CLOSE_SECONDS)
        self._connection.close()
        if self._guard is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._guard.wait(CLOSE_SECONDS)

    def _send(self, number: signal.Signals) -> None:
        try:
            self._connection.sendall(bytes([number]))
        except OSError:
            return  # the process has ended, and wait() returns its exit code

    def _read(self, timeout_seconds: float) -> dict[str, int] | None:
        while b"\n" not in self._buffer:
            if not select.select([self._connection], [], [], timeout_seconds)[0]:
                return None
            data = self._connection.recv(4096)
            if not data:
                raise ConnectionResetError("the fork server was killed")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, int] = json.loads(line)
        return message

    def _kill_orphans(self) -> int:
        """Kills the rest of the process group after the fork server was killed.

        Returns:
            -9, the exit code of a killed process.
        """
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
        return -signal.SIGKILL


def start_cold(launch: Launch, log: BinaryIO) -> Process:
    """Starts a command without preloaded imports, as the child of a new fork server.

    Raises:
        NotStartedError: The fork server did not start the process.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        guard = subprocess.Popen(  # noqa: S603, our own file
            [sys.executable, "-I", "-S", FORK_SERVER, "guard", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={},
            start_new_session=True,
        )
    process = Process(ours, guard=guard)
    process.request(launch, log)
    return process
