"""Starts a confined process for users' code, without the platform's credentials.

If the platform is root, the process runs as another user. The platform writes a line of JSON to
the process and reads a line of JSON as the answer; it never unpickles or imports data that the
process sends. No process that the users' code starts outlives the sandbox. The docstring of
`confine` lists the restrictions.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpo_ops.isolation._code_copy import copy_code

GUARD = Path(__file__).with_name("confine.py")
PACKAGE = Path(__file__).parent.parent
MAX_ANSWER_BYTES = 32 * 2**20
KEPT_OUTPUT_BYTES = 64_000
CLOSE_SECONDS = 10.0
UID_VARIABLE = "HPO_SANDBOX_UID"
DEFAULT_UID = 65430
"""The default user and group id of users' code if the platform is root; the id owns no files."""
READ_VARIABLE = "HPO_SANDBOX_READ"
WRITE_VARIABLE = "HPO_SANDBOX_WRITE"
ENVIRONMENT_VARIABLE = "HPO_SANDBOX_ENV"
PASSED_ON = frozenset(
    {
        # A stack identifies the processes that it has to end by these two variables.
        "HPO_STACK_ID",
        "HPO_STACK_PART",
        "LANG",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "NO_PROXY",
        "PATH",
        "PYTHONPATH",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TZ",
        "VIRTUAL_ENV",
        "no_proxy",
    }
)
"""Names of environment variables that are passed to users' code.

All other variables are withheld, since they may contain secrets, unless the operator lists them in
``HPO_SANDBOX_ENV``.
"""
_SYSTEM = (
    *("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr", "/proc", "/sys"),
    *("/etc/ca-certificates", "/etc/crypto-policies", "/etc/gai.conf", "/etc/group"),
    *("/etc/host.conf", "/etc/hosts", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types"),
    *("/etc/nsswitch.conf", "/etc/passwd", "/etc/pki", "/etc/protocols", "/etc/resolv.conf"),
    *("/etc/services", "/etc/ssl", "/etc/timezone", "/run/systemd/resolve"),
)
"""Paths of the operating system that users' code may read; none contains files of the platform."""


class SandboxError(ValueError):
    """A sandbox cannot start: ``HPO_SANDBOX_UID`` is invalid, or the code cannot be copied."""


class SandboxEndedError(RuntimeError):
    """The sandbox's process has ended, or its answer is too long or not JSON."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Resource limits of users' code.

    Attributes:
        memory_bytes: The largest address space of each process.
        processes: The largest number of processes and threads of the sandbox's user; not applied
            if users' code runs as the platform's user.
        file_bytes: The largest size of a file that users' code writes.
    """

    memory_bytes: int = 8 * 2**30
    processes: int = 1024
    file_bytes: int = 2**30


class Sandbox:
    """A running, confined process with users' code.

    The caller must call `close`, or use the sandbox as a context manager.

    Args:
        script: The platform's script that loads the users' code.
        arguments: Arguments of the script. They must not contain secrets, since all users of the
            machine can see them.
        code: The folder of users' code, which the process may read and which (or a copy of which)
            is its working directory; None if there is no code folder.
        limits: Resource limits; None for the defaults of `Limits`.
        environment: The platform's environment variables, among them the operator's settings
            ``HPO_SANDBOX_...``; only the variables that `PASSED_ON` or ``HPO_SANDBOX_ENV`` names
            are passed to the process.

    Raises:
        SandboxError: ``HPO_SANDBOX_UID`` is invalid, or the code cannot be copied for the
            sandbox's user.
    """

    def __init__(
        self,
        script: Path,
        arguments: Sequence[str] = (),
        *,
        code: Path | None,
        limits: Limits | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        uid = sandbox_uid(environment)
        self._given_code = code
        self._output = b""
        self._folder = Path(tempfile.mkdtemp(prefix="hpo-sandbox-"))
        try:
            self.code = self._lay_out(code, uid)
            order = self._order(script, arguments, limits or Limits(), environment, uid)
            self._lifeline = -1
            self._process = self._start(order)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def pid(self) -> int:
        """The process id of the guard, the parent process of the users' code.

        If the guard is killed, the users' code is killed too.
        """
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the sandbox's process is alive, so that `ask` can send requests to it."""
        if self._process.returncode is not None:
            return False
        # Does not reap the process, so that the kernel cannot reuse its process group id yet.
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    @property
    def output(self) -> str:
        """The last part of what the users' code has written to standard error."""
        return self.named(self._output.decode(errors="replace"))

    def named(self, text: str) -> str:
        """Returns a text in which the path of the copied code folder is replaced by the original.

        Messages and tracebacks of the users' code then name files that the user knows.
        """
        return text.replace(str(self.code), str(self._given_code)) if self.code else text

    def ask(self, request: object, *, seconds: float) -> object:
        """Sends a request to the process as a line of JSON and returns the parsed answer.

        Raises:
            TimeoutError: The process did not answer within ``seconds``.
            SandboxEndedError: The process has ended, or its answer is not JSON or too long.
        """
        line = json.dumps(request).encode() + b"\n"
        try:
            answer: object = json.loads(self._exchange(line, time.monotonic() + seconds))
        except TimeoutError:
            raise
        except (OSError, ValueError, RecursionError) as error:
            raise SandboxEndedError(f"there is no valid answer: {error}") from error
        return answer

    def close(self) -> None:
        """Kills the users' code and all its descendants, and removes the sandbox's folder."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
            try:
                self._process.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
                self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lay_out(self, code: Path | None, uid: int | None) -> Path | None:
        """Creates the sandbox's home folder, and copies users' code that runs as another user.

        Args:
            code: The original code folder; None if there is no code folder.
            uid: The user id of users' code; None for the platform's own user.

        Returns:
            The code folder that the process uses: the copy, or the original if users' code runs as
            the platform's own user, or None if there is no code folder.

        Raises:
            SandboxError: The code folder cannot be copied.
        """
        home = self._folder / "home"
        home.mkdir(mode=0o700)
        if uid is None:
            return code
        self._folder.chmod(0o711)
        os.chown(home, uid, uid)
        if code is None:
            return None
        copied = self._folder / "code"
        try:
            copy_code(code, copied)
        except OSError as error:
            raise SandboxError(f"the code folder {code} cannot be copied: {error}") from error
        return copied

    def _order(
        self,
        script: Path,
        arguments: Sequence[str],
        limits: Limits,
        environment: Mapping[str, str],
        uid: int | None,
    ) -> dict[str, object]:
        """Builds the guard's argument: what to run, as which user, and with which access."""
        home = str(self._folder / "home")
        sites = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        own = [sys.base_prefix, sys.prefix, str(PACKAGE), *sites]
        variables = {"HOME": home, "TMPDIR": home, **_harmless(environment)}
        modules = _paths(variables, "PYTHONPATH")
        extra = modules + _paths(variables, "LD_LIBRARY_PATH")
        code = [str(self.code)] if self.code else []
        memory, files = limits.memory_bytes, limits.file_bytes
        return {
            "uid": uid,
            "gid": uid,
            "folder": str(self.code or home),
            "private": str(self._folder),
            "python": sys.executable,
            "real_python": str(Path(sys.executable).resolve()),
            "home": sys.base_prefix,
            "sites": sites,
            "handed_over": [] if uid is None else sorted({*own, *modules}),
            "script": [str(script), *arguments],
            "environment": variables,
            "readable": [*_SYSTEM, *own, *extra, *code, *_paths(environment, READ_VARIABLE)],
            "writable": [home, *_paths(environment, WRITE_VARIABLE)],
            "limits": {"AS": memory, "FSIZE": files}
            | ({} if uid is None else {"NPROC": limits.processes}),
        }

    def _start(self, order: Mapping[str, object]) -> subprocess.Popen[bytes]:
        theirs, ours = os.pipe()
        try:
            process = subprocess.Popen(  # noqa: S603  our own file
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(GUARD),
                    json.dumps({**order, "lifeline": theirs}),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd="/",
                env={},
                pass_fds=[theirs],
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._lifeline = ours
        return process

    def _exchange(self, line: bytes, until: float) -> bytes:
        """Writes a request to the process and returns the answer, which is one line.

        Standard error of the process is read meanwhile, and its end is stored for `output`.

        Args:
            line: The request, which ends with a newline.
            until: The time of the monotonic clock at which to give up.

        Raises:
            TimeoutError: The process did not answer in time.
            OSError: The process has ended, or its answer is too long.
        """
        calls, answers, printed = self._process.stdin, self._process.stdout, self._process.stderr
        if calls is None or answers is None or printed is None:
            raise EOFError
        answer = b""
        while not answer.endswith(b"\n"):
            left = until - time.monotonic()
            readable, writable, _ = select.select(
                [answers, printed], [calls] if line else [], [], max(left, 0)
            )
            if not readable and not writable:
                raise TimeoutError
            if writable:
                line = line[os.write(calls.fileno(), line[: select.PIPE_BUF]) :]
            if printed in readable:
                self._output += os.read(printed.fileno(), 2**16)
                self._output = self._output[-KEPT_OUTPUT_BYTES:]
            if answers in readable:
                part = os.read(answers.fileno(), 2**20)
                answer += part
                if not part or len(answer) > MAX_ANSWER_BYTES:
                    raise OSError("the process has ended" if not part else "it is too long")
        return answer


def sandbox_uid(environment: Mapping[str, str] = os.environ) -> int | None:
    """Returns the user id of users' code, or None if users' code runs as the platform's user.

    Raises:
        SandboxError: ``HPO_SANDBOX_UID`` is not a user id.
    """
    if os.geteuid() != 0:
        return None  # only root can become another user
    text = environment.get(UID_VARIABLE, "") or str(DEFAULT_UID)
    if not text.isdigit() or int(text) >= 2**32 - 1:
        raise SandboxError(f"{UID_VARIABLE} is {text!r}, but must be a user id (a number)")
    return int(text) or None


def _harmless(environment: Mapping[str, str]) -> dict[str, str]:
    listed = environment.get(ENVIRONMENT_VARIABLE, "").split(",")
    names = PASSED_ON | {name.strip() for name in listed}
    kept = {name: value for name, value in environment.items() if name in names}
    # A fixed hash seed, because the order of sets must be the same in a restarted process.
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}


def _paths(environment: Mapping[str, str], name: str) -> list[str]:
    return [path for path in environment.get(name, "").split(os.pathsep) if path]
