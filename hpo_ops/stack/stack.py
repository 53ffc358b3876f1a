"""Everything on one machine: PostgreSQL, S3 and Airflow, started and stopped as one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import psutil

from hpo_ops.client.token_signing import KeyRing
from hpo_ops.stack.free_ports import choose_port
from hpo_ops.stack.object_store import PORT_OFFSETS, ObjectStore
from hpo_ops.stack.postgres import Database
from hpo_ops.stack.servers import Servers
from hpo_ops.stack.stack_files import Layout, write_private
from hpo_ops.stack.stack_parts import (
    AIRFLOW_PARTS,
    Part,
    PartFailedError,
    PartStatus,
    Progress,
    StackError,
    Update,
)
from hpo_ops.stack.stack_secrets import Secrets
from hpo_ops.stack.stack_settings import USERNAME, Settings
from hpo_ops.stack.supervisor import Supervisor

DEFAULT_PORT = 8080
DEFAULT_S3_PORT = 8333


def _silent(_: Update) -> None:
    return None


class Stack:
    """All servers of one machine, with their state in one folder.

    What is not given is taken from the stack that was last started in the folder, else from the
    defaults. A port that is taken when the stack starts is replaced by a free one.

    Args:
        root: Where the stack keeps its state, for example `.hpo` in the project.
        project: The folder with `dags/`, `plugins/` and `config/`; by default this checkout.
        dags: Another DAGs folder than the project's.
        port: The preferred port of the UI (8080); 0 means any.
        s3_port: The first of the preferred ports of S3 (8333); 0 means any.
        extra_environment: More variables for Airflow's parts.
        start_seconds: How long a part may take until it is healthy.
        hang_seconds: How long a part that has been running may be unhealthy until it is replaced.

    Example:
        >>> with Stack(Path(".hpo")) as stack:  # doctest: +SKIP
        ...     stack.airflow("dags", "trigger", "digits")
    """

    def __init__(
        self,
        root: Path,
        *,
        project: Path | None = None,
        dags: Path | None = None,
        port: int | None = None,
        s3_port: int | None = None,
        extra_environment: Mapping[str, str] | None = None,
        start_seconds: float = 180.0,
        hang_seconds: float = 60.0,
    ) -> None:
        self._layout = Layout(Path(root).resolve())
        settings = Settings.read(self._layout)
        if settings is None:
            settings = Settings.of_project(_checkout(), port=DEFAULT_PORT, s3_port=DEFAULT_S3_PORT)
        if project is not None:
            folder = project.resolve()
            settings = replace(
                settings, project=folder, dags=folder / "dags", plugins=folder / "plugins"
            )
        self._settings = replace(
            settings,
            dags=settings.dags if dags is None else dags.resolve(),
            port=settings.port if port is None else port,
            s3_port=settings.s3_port if s3_port is None else s3_port,
            extra_environment=settings.extra_environment
            if extra_environment is None
            else dict(extra_environment),
        )
        self._start_seconds = start_seconds
        self._hang_seconds = hang_seconds

    @classmethod
    def at(cls, root: Path) -> Stack:
        """Returns the stack that was started in this folder before.

        Raises:
            StackError: None ever was.
        """
        if not Layout(Path(root).resolve()).stack_file.is_file():
            raise StackError(f"{root}: no stack was ever started here (there is no stack.json)")
        return cls(root)

    def __enter__(self) -> Stack:
        try:
            self.start()
        except StackError:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def root(self) -> Path:
        return self._layout.root

    @property
    def dags(self) -> Path:
        return self._settings.dags

    @property
    def url(self) -> str:
        return self._settings.url

    @property
    def username(self) -> str:
        return USERNAME

    @property
    def password(self) -> str:
        return self._secrets().admin_password

    @property
    def gateway_keys(self) -> KeyRing:
        """The gateway's signing keys, as its next start reads them."""
        return self._secrets().keys

    def set_gateway_keys(self, keys: KeyRing) -> None:
        """Changes the gateway's signing keys; a part takes them up when it starts."""
        replace(self._secrets(), gateway_keys=keys.to_text()).write(self._layout.secrets_file)

    @property
    def ledger_url(self) -> str:
        """The SQLAlchemy URL of the ledger: for a gateway, and for tests that look behind it."""
        return self._servers().postgres.url(Database.LEDGER)

    @property
    def object_store(self) -> ObjectStore:
        return self._servers().object_store

    def log(self, part: Part) -> Path:
        """Returns where a part writes its log."""
        return self._layout.log(part)

    def environment(self) -> dict[str, str]:
        """Returns the environment for Airflow's commands, the caller's own included."""
        return self._servers().environment()

    def airflow(
        self, *arguments: str, timeout_seconds: float = 300.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of Airflow's against this stack; the caller looks at the return code."""
        return subprocess.run(  # noqa: S603  Airflow's own command
            [sys.executable, "-m", "airflow", *arguments],
            env=self.environment(),
            cwd=self._settings.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )

    def start(self, progress: Progress = _silent) -> None:
        """Starts parts that do not run, replaces those that hang, and waits until all are healthy.

        A part that fails is stopped; the other parts go on. When the caller is interrupted, what
        this call has started is stopped.

        Raises:
            PartFailedError: A part did not become healthy. The message has the end of its log.
        """
        with self._locked():
            self._settle()
            started: list[Part] = []
            servers = self._servers()
            try:
                servers.start(started, progress)
            except PartFailedError:
                raise
            except BaseException:
                servers.stop(started, _silent)
                raise

    def supervise(self, say: Callable[[str], None], *, until: threading.Event) -> None:
        """Starts again what dies or hangs, until the event is set or another command takes over.

        Another supervisor of the same stack takes over from this one; so does `stop`. What was
        supervised goes on running when this call returns.

        Args:
            say: Told one line about each part that is started again.
            until: Ends the supervision.
        """
        supervisor = Supervisor(
            self._servers(),
            say,
            lock=self._locked,
            record=self._layout.supervisor_file,
            start_seconds=self._start_seconds,
            hang_seconds=self._hang_seconds,
        )
        supervisor.run(until)

    def stop(self, progress: Progress = _silent) -> None:
        """Stops everything, and makes sure that nothing is left.

        Raises:
            StackError: A process could not be stopped.
        """
        if not self._layout.secrets_file.is_file():
            return
        with self._locked():
            self._layout.supervisor_file.unlink(missing_ok=True)
            self._servers().stop(list(Part), progress)
            self._servers().require_nothing_left()

    def restart(self, part: Part, progress: Progress = _silent) -> None:
        """Stops one part and starts it again."""
        with self._locked():
            self._servers().stop([part], progress)
        self.start(progress)

    def find(self, part: Part) -> psutil.Process | None:
        """Returns a part's main process while it runs."""
        return self._servers().find(part)

    def kill(self, part: Part) -> None:
        """Kills a part's main process with SIGKILL, as a machine short of memory does.

        Raises:
            StackError: The part is not running.
        """
        process = self.find(part)
        if process is None:
            raise StackError(f"{part} is not running")
        process.kill()
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(10)

    def status(self) -> list[PartStatus]:
        """Returns how each part is doing."""
        if not self._layout.secrets_file.is_file():
            return [PartStatus(part, None, False, self.log(part)) for part in Part]
        servers = self._servers()
        pids = {part: process.pid for part in Part if (process := servers.find(part))}
        healthy = servers.healthy(pids)
        return [PartStatus(part, pids.get(part), part in healthy, self.log(part)) for part in Part]

    def is_healthy(self) -> bool:
        """Says whether every part runs and does its work."""
        return all(status.is_healthy for status in self.status())

    def processes(self) -> list[psutil.Process]:
        """Returns every live process of this stack, those that its tasks have started included."""
        return self._servers().processes() if self._layout.secrets_file.is_file() else []

    def _secrets(self) -> Secrets:
        self._layout.make()
        return Secrets.load_or_make(self._layout.secrets_file)

    def _servers(self) -> Servers:
        return Servers(
            self._layout,
            self._settings,
            self._secrets(),
            start_seconds=self._start_seconds,
            hang_seconds=self._hang_seconds,
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps two commands from starting or stopping the same stack at the same time."""
        self._layout.make()
        with self._layout.lock_file.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _settle(self) -> None:
        """Decides on ports, ends what runs with other settings, and writes `stack.json`."""
        known, servers = Settings.read(self._layout), self._servers()
        port, s3_port = self._settings.port, self._settings.s3_port
        if known is not None and servers.find(Part.API_SERVER) and port in (0, known.port):
            port = known.port
        else:
            port = choose_port(port)
        if known is not None and servers.find(Part.S3) and s3_port in (0, known.s3_port):
            s3_port = known.s3_port
        else:
            s3_port = choose_port(s3_port, offsets=PORT_OFFSETS)
        self._settings = replace(self._settings, port=port, s3_port=s3_port)
        if known not in (None, self._settings):
            servers.stop([*AIRFLOW_PARTS, Part.S3], _silent)
        secrets = self._secrets()
        passwords = json.dumps({USERNAME: secrets.admin_password})
        write_private(self._layout.passwords_file, passwords + "\n")
        self._settings.write(self._layout, secrets)


@contextlib.contextmanager
def supervised(stack: Stack, say: Callable[[str], None]) -> Iterator[None]:
    """Supervises a stack from a thread while the body runs."""
    is_over = threading.Event()
    thread = threading.Thread(
        target=stack.supervise, args=(say,), kwargs={"until": is_over}, daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextlib.contextmanager
def stopping_at_the_end(stack: Stack, progress: Progress) -> Iterator[None]:
    """Stops a stack when the body is interrupted by Ctrl-C or SIGTERM."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        # A second Ctrl-C must not leave half of the parts behind.
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        stack.stop(progress)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _checkout() -> Path:
    """Returns the folder of this checkout, with `dags/`, `plugins/` and `config/`."""
    return Path(__file__).resolve().parents[2]
