"""The fork server: the parent of training processes, which ensures that none outlives its runner.

The file is a script for the Python interpreter of the training code, and uses only the standard
library:

    _fork_server.py guard <fd>                 runs one command, requested over an open connection
    _fork_server.py warm <socket> <lock> ...   forks many scripts after preloading their imports

The runner of each training process has its own connection to the fork server. The runner sends a
request (a length, JSON, and the file descriptor of the log) and receives the process id. Each
further byte that the runner sends is the number of a signal for the process. When the process
ends, the runner receives its exit code. When the runner is killed, its connection closes and the
fork server kills the process group. When the fork server is killed, the kernel kills its children.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import types
from pathlib import Path
from typing import Any, NoReturn

HEADER = struct.Struct("!I")
PR_SET_PDEATHSIG = 1
REQUEST_SECONDS = 10.0
CANNOT_START = 127
READY = b"ready"


class ForkServer:
    """Forks training processes and serves the connections of their runners.

    Args:
        idle_seconds: Time without connections after which the server ends; None for no limit.
        lock: Path of the file that a runner locks while it connects; None for a server
            without an idle limit.
    """

    def __init__(self, idle_seconds: float | None = None, lock: str | None = None) -> None:
        self._selector = selectors.DefaultSelector()
        self._idle_seconds = idle_seconds
        self._lock = lock
        self._listener: socket.socket | None = None
        self._connections: dict[int, socket.socket] = {}
        self._descriptors: dict[int, int] = {}
        self._libc = ctypes.CDLL(None)

    def listen(self, path: str) -> None:
        """Starts to listen for runners on a new unix socket at the given path."""
        Path(path).unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ, None)

    def serve(self) -> dict[str, Any] | None:
        """Serves the connected runners until all their connections are closed.

        A server that listens for new runners serves until it has been idle for `idle_seconds`.

        Returns:
            In the fork server, None. In a forked child, the request that the child must run.
        """
        while self._listener is not None or self._connections:
            events = self._selector.select(None if self._connections else self._idle_seconds)
            if not events and not self._connections and self._close_if_alone():
                return None
            for key, _ in events:
                if key.data is not None:
                    kind, pid = key.data
                    (self._on_exit if kind == "process" else self._on_connection)(pid)
                elif self._listener is not None and (
                    request := self.start(self._listener.accept()[0])
                ):
                    return request
        return None

    def start(self, connection: socket.socket) -> dict[str, Any] | None:
        """Reads a runner's request from its connection and forks a child for the request.

        Returns:
            In the child, the request. In the fork server, None, also if reading or forking failed.
        """
        parent = os.getpid()
        try:
            connection.settimeout(REQUEST_SECONDS)
            request, log = _receive(connection)
            pid = os.fork()
        except (OSError, ValueError):
            connection.close()
            return None
        if pid == 0:
            self._become_child(parent, connection)
            _enter(request, log)
            return request
        os.close(log)
        self._connections[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, ("connection", pid))
        self._descriptors[pid] = os.pidfd_open(pid)
        self._selector.register(self._descriptors[pid], selectors.EVENT_READ, ("process", pid))
        self._answer(pid, {"pid": pid})
        return None

    def _become_child(self, parent: int, connection: socket.socket) -> None:
        os.setsid()
        self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        for other in self._connections.values():
            other.close()
        if self._listener is not None:
            self._listener.close()
        self._selector.close()
        connection.close()

    def _on_connection(self, pid: int) -> None:
        connection = self._connections.get(pid)
        if connection is None:  # the process ended in the same turn of the loop
            return
        data = b""
        with contextlib.suppress(OSError):
            data = connection.recv(16)
        if not data:
            self._selector.unregister(connection)
            connection.close()
            data = bytes([signal.SIGKILL])
        for number in data:
            _send_signal(pid, number)

    def _on_exit(self, pid: int) -> None:
        # Kills the rest of the group before waitpid, after which the id may be reused.
        _send_signal(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        descriptor = self._descriptors.pop(pid)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        self._answer(pid, {"exit_code": os.waitstatus_to_exitcode(status)})
        connection = self._connections.pop(pid)
        if connection.fileno() >= 0:
            self._selector.unregister(connection)
            connection.close()

    def _answer(self, pid: int, message: dict[str, int]) -> None:
        with contextlib.suppress(OSError):  # the runner is gone; _on_connection handles that
            self._connections[pid].sendall(json.dumps(message).encode() + b"\n")

    def _close_if_alone(self) -> bool:
        """Stops listening, unless a runner that is about to connect holds the lock.

        Returns:
            Whether the server stopped listening.
        """
        if self._lock is None or self._listener is None:
            return False
        with Path(self._lock).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            Path(self._listener.getsockname()).unlink(missing_ok=True)
            self._listener.close()
        return True


def _receive(connection: socket.socket) -> tuple[dict[str, Any], int]:
    header, descriptors, _, _ = socket.recv_fds(connection, HEADER.size, 1)
    if len(header) < HEADER.size or not descriptors:
        raise ValueError("the request ends early")
    (length,) = HEADER.unpack(header)
    with connection.makefile("rb") as stream:
        return json.loads(stream.read(length)), descriptors[0]


def _send_signal(pid: int, number: int) -> None:
    """Sends a signal to a process; SIGKILL is also sent to the rest of its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        if number == signal.SIGKILL:
            os.killpg(pid, number)


def _enter(request: dict[str, Any], log: int) -> None:
    """Sets the child's standard streams, signals, environment and directory for the training.

    The result is the same as in a newly started process.
    """
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    try:
        os.chdir(request["folder"])
    except OSError as error:
        _give_up(f"cannot enter {request['folder']}: {error.strerror}")


def _give_up(message: str) -> NoReturn:
    os.write(2, f"{message}\n".encode())
    os._exit(CANNOT_START)


def run_command(request: dict[str, Any]) -> NoReturn:
    """Replaces this process with the requested command (``exec``)."""
    program = request["argv"][0]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(program, request["argv"], request["environment"])  # noqa: S606  the training command
    except OSError as error:
        _give_up(f"cannot start {program}: {error.strerror}")


def run_script(request: dict[str, Any]) -> NoReturn:
    """Runs the requested Python script in this process, as ``python script.py`` would."""
    sys.argv = request["argv"][1:]
    script = Path(sys.argv[0]).absolute()
    sys.path.insert(0, str(script.parent))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a text file
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    preloaded = set(sys.modules)
    _end(_run_as_main(str(script)), preloaded)


def _run_as_main(script: str) -> int:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = script
    try:
        exec(compile(Path(script).read_bytes(), script, "exec"), vars(main))  # noqa: S102  the training script
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        sys.stderr.write(f"{error.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001, handed to the hook that training code may set
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != script:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


def _end(exit_code: int, preloaded: set[str]) -> NoReturn:
    """Exits this process as the interpreter would, but does not tear down preloaded modules.

    Tearing down torch alone takes most of a second. Threads are joined, exit functions are
    called, and the script's own modules are deleted, so that its open files are flushed.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # as in multiprocessing
    atexit._run_exitfuncs()
    for name in set(sys.modules) - preloaded | {"__main__"}:
        del sys.modules[name]
    gc.collect()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(exit_code & 0xFF)


def preload(imports: list[tuple[str, list[str]]]) -> None:
    """Imports modules before any script runs; an import that fails is logged and ignored.

    Args:
        imports: Modules, each with the names that scripts import from the module.
    """
    for module, names in imports:
        try:
            __import__(module, fromlist=names)
        except (Exception, SystemExit) as error:  # noqa: BLE001, the script will meet it
            sys.stderr.write(f"{module} was not preloaded: {error!r}\n")


def guard(descriptor: str) -> None:
    """Reads the request for one command from a connection and runs the command as a child.

    Args:
        descriptor: The file descriptor of the open connection to the runner.
    """
    fork_server = ForkServer()
    if request := fork_server.start(socket.socket(fileno=int(descriptor))) or fork_server.serve():
        run_command(request)


def warm(path: str, lock: str, idle_seconds: str, ready: str, imports: str) -> None:
    """Preloads imports and then forks a child for each script that a runner requests.

    The server runs in a forked process. The process that the runner started exits at once, since
    the runner waits for its exit.

    Args:
        path: Path of the socket to listen on.
        lock: Path of the file that a runner locks while it connects.
        idle_seconds: Time without connections after which the server ends.
        ready: File descriptor to which `READY`, or the reason of a failure, is written.
        imports: The modules to preload, as JSON.
    """
    if os.fork():
        os._exit(0)
    sys.path.pop(0)
    preload(json.loads(imports))
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        os.write(int(ready), f"the imports started {threads - 1} threads".encode())
        return
    gc.collect()
    gc.freeze()
    fork_server = ForkServer(float(idle_seconds), lock)
    fork_server.listen(path)
    os.write(int(ready), READY)
    os.close(int(ready))
    if request := fork_server.serve():
        run_script(request)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
