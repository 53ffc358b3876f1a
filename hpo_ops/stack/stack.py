"""Starts, supervises and stops a stack: PostgreSQL, an S3 server and Airflow on one machine."""

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
from hpo_ops.stack._free_ports import choose_port
from hpo_ops.stack._object_store import PORT_OFFSETS, ObjectStore
from hpo_ops.stack._postgres import Database
from hpo_ops.stack._servers import Servers
from hpo_ops.stack._stack_parts import (
    AIRFLOW_PARTS,
    Part,
    PartFailedError,
    PartStatus,
    Progress,
    StackError,
    Update,
)
from hpo_ops.stack._stack_settings import USERNAME, Settings
from hpo_ops.stack._supervisor import Supervisor
from hpo_ops.stack.stack_files import Layout, write_private
from hpo_ops.stack.stack_secrets import Secrets

DEFAULT_PORT = 8080
DEFAULT_S3_PORT = 8333


def _silent(_: Update) -> None:
    return None


class Stack:
    """PostgreSQL, S3 and Airflow on this machine, with their state in one folder.

    Arguments that are not given default to the settings of the last start in this folder, or to
    the values below. A port that is in use when the stack starts is replaced with a free port.

    Args:
        root: The folder of the stack's state, for example `.hpo` in the project.
        project: The folder with `dags/`, `plugins/` and `config/`; by default this checkout.
        dags: The folder of DAG files; by default `dags/` of the project.
        port: The preferred port of the UI; by default 8080. 0 means any free port.
        s3_port: The preferred port of S3, the first of several ports; by default 8333. 0 means any
            free port.
        extra_environment: Additional environment variables for Airflow's services.
        start_seconds: Maximum seconds from the launch of a service until it is healthy.
        hang_seconds: Seconds after which a running but unhealthy service is replaced.

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
        """Returns the stack of a folder in which a stack was started before.

        Raises:
            StackError: No stack was ever started in this folder.
        """
        if not Layout(Path(root).resolve()).stack_file.is_file():
            raise StackError(
                f"{root}: no stack was ever started in this folder (it has no stack.json); "
                "start one with `hpo up`"
            )
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
        """The stored keys with which the gateway signs tokens.

        A gateway that was started before the keys were changed still uses the older keys.
        """
        return self._secrets().keys

    def set_gateway_keys(self, keys: KeyRing) -> None:
        """Stores new keys for signing the gateway's tokens; a service uses them once restarted."""
        replace(self._secrets(), gateway_keys=keys.to_text()).write(self._layout.secrets_file)

    @property
    def ledger_url(self) -> str:
        """The SQLAlchemy URL of the ledger's database, for a gateway and for tests."""
        return self._servers().postgres.url(Database.LEDGER)

    @property
    def object_store(self) -> ObjectStore:
        return self._servers().object_store

    def log(self, part: Part) -> Path:
        """Returns the log file of a service."""
        return self._layout.log(part)

    def environment(self) -> dict[str, str]:
        """Returns the environment variables for commands of the Airflow CLI on this stack.

        They include most environment variables of this process.
        """
        return self._servers().environment()

    def airflow(
        self, *arguments: str, timeout_seconds: float = 300.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of the Airflow CLI on this stack; does not raise if the command fails."""
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
        """Starts missing services, replaces hanging services, and waits until all are healthy.

        A service that fails is stopped; the other services continue to run. If this call is
        interrupted, the services that it has started are stopped.

        Raises:
            PartFailedError: A service did not become healthy. The message contains the last lines
                of the service's log.
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
        """Restarts services that die or hang, until `until` is set.

        The supervision also ends if the stack is stopped or another process starts to supervise
        it. The services continue to run after `until` is set.

        Args:
            say: Called with a line of text about each restarted service and each killed process.
            until: The event that ends the supervision.
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
        """Stops all services, and checks that no process of the stack is alive.

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
        """Stops one service, then starts it and any other missing service."""
        with self._locked():
            self._servers().stop([part], progress)
        self.start(progress)

    def find(self, part: Part) -> psutil.Process | None:
        """Returns the main process of a service, or None if the service does not run."""
        return self._servers().find(part)

    def kill(self, part: Part) -> None:
        """Kills the main process of a service with SIGKILL, as the kernel's OOM killer does.

        Raises:
            StackError: The service is not running.
        """
        process = self.find(part)
        if process is None:
            raise StackError(f"{part} is not running")
        process.kill()
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(10)

    def status(self) -> list[PartStatus]:
        """Returns the state of each service."""
        if not self._layout.secrets_file.is_file():
            return [PartStatus(part, None, False, self.log(part)) for part in Part]
        servers = self._servers()
        pids = {part: process.pid for part in Part if (process := servers.find(part))}
        healthy = servers.healthy(pids)
        return [PartStatus(part, pids.get(part), part in healthy, self.log(part)) for part in Part]

    def is_healthy(self) -> bool:
        """Returns whether every service is healthy."""
        return all(status.is_healthy for status in self.status())

    def processes(self) -> list[psutil.Process]:
        """Returns all live processes of this stack, including processes started by tasks."""
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
        """Holds the lock of the stack, so that no other command starts or stops its services."""
        self._layout.make()
        with self._layout.lock_file.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _settle(self) -> None:
        """Chooses ports, stops services that run with other settings, and writes `stack.json`."""
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
    """Supervises a stack in a thread while the body of the `with` statement runs."""
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
    """Stops a stack if Ctrl-C or SIGTERM interrupts the body of the `with` statement."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        # A second Ctrl-C must not leave some services running.
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        stack.stop(progress)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _checkout() -> Path:
    """Returns the folder of this source checkout, with `dags/`, `plugins/` and `config/`."""
    return Path(__file__).resolve().parents[2]
