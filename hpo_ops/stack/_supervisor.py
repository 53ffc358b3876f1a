"""Supervises the services of a stack, and restarts services that die or hang."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from hpo_ops.stack._processes import ProcessRecord, find_stopped
from hpo_ops.stack._stack_parts import AIRFLOW_PARTS, Part, StackError

POLL_SECONDS = 2.0
CALM_SECONDS = 60.0
"""Seconds of health after which the restarts of a service are counted from zero again."""
LONGEST_DELAY_SECONDS = 30.0
STOPPED_SECONDS = 10.0
"""Seconds after which a process that was suspended by a signal is killed."""


class WatchedParts(Protocol):
    """The operations on services that `Supervisor` calls; `Servers` implements them."""

    def find(self, part: Part) -> psutil.Process | None: ...

    def healthy(self, parts: Iterable[Part]) -> set[Part]: ...

    def processes(self) -> list[psutil.Process]: ...

    def launch(self, part: Part) -> None: ...

    def end(self, part: Part) -> None: ...


@dataclass
class Watch:
    """The health record of one service, and the decision when to restart the service.

    Times are seconds of a monotonic clock. From the second restart in a row on, restart n comes at
    least 2^(n-2) seconds after the previous restart, but no delay exceeds `LONGEST_DELAY_SECONDS`.

    Attributes:
        start_seconds: Maximum seconds from the launch of the service until it is healthy.
        hang_seconds: Maximum seconds for which the service may be unhealthy after it was healthy.
        was_healthy: Whether the service has been healthy since its last restart.
        healthy_since: Time at which the service became healthy; None if it is not healthy.
        unhealthy_since: Time at which the service became unhealthy; None if it is healthy, or if
            its health is unknown.
        restarts: The number of restarts since the service was last healthy for `CALM_SECONDS`.
        not_before: The earliest time of the next restart.
    """

    start_seconds: float
    hang_seconds: float
    was_healthy: bool = True
    healthy_since: float | None = None
    unhealthy_since: float | None = None
    restarts: int = 0
    not_before: float = 0.0

    def judge(
        self, *, is_running: bool, is_healthy: bool, is_known: bool, now: float
    ) -> str | None:
        """Records the service's health; returns why to restart the service now, or None if not.

        Args:
            is_running: Whether the service's main process is alive.
            is_healthy: Whether the service is healthy.
            is_known: Whether the service's health is known; if not, the service is restarted
                only if its main process has ended.
            now: The current time.
        """
        if is_healthy:
            self._be_healthy(now)
            return None
        self.healthy_since = None
        if not is_running:
            why = "its process exited"
        elif not is_known:
            self.unhealthy_since = None
            return None
        else:
            self.unhealthy_since = now if self.unhealthy_since is None else self.unhealthy_since
            patience = self.hang_seconds if self.was_healthy else self.start_seconds
            if now - self.unhealthy_since < patience:
                return None
            why = f"not healthy for {patience:.0f} s"
        return None if now < self.not_before else why

    def _be_healthy(self, now: float) -> None:
        self.was_healthy, self.unhealthy_since = True, None
        self.healthy_since = now if self.healthy_since is None else self.healthy_since
        if now - self.healthy_since >= CALM_SECONDS:
            self.restarts = 0

    def restarted(self, now: float) -> None:
        """Records a restart of the service, and sets the earliest time of the next restart."""
        self.not_before = now + min(LONGEST_DELAY_SECONDS, 2.0**self.restarts)
        self.restarts += 1
        self.was_healthy, self.unhealthy_since = False, None


class Supervisor:
    """The supervisor of the services of one stack; a stack has at most one supervisor at a time.

    Args:
        servers: Finds, checks, starts and ends the services of the stack.
        say: Called with a line of text about each restarted service and each killed process.
        lock: Returns a context manager that prevents other commands from starting or stopping
            services of the stack.
        record: The pid file of the supervising process. If the file names another process or is
            deleted, this supervisor ends.
        start_seconds: Maximum seconds from the launch of a service until it is healthy.
        hang_seconds: Seconds after which a running but unhealthy service is replaced.
    """

    def __init__(
        self,
        servers: WatchedParts,
        say: Callable[[str], None],
        *,
        lock: Callable[[], AbstractContextManager[None]],
        record: Path,
        start_seconds: float,
        hang_seconds: float,
    ) -> None:
        self._servers = servers
        self._say = say
        self._lock = lock
        self._record = record
        self._me = ProcessRecord.of(psutil.Process(os.getpid()))
        self._watches = {part: Watch(start_seconds, hang_seconds) for part in Part}

    def run(self, until: threading.Event) -> None:
        """Supervises the services until `until` is set or another command takes over.

        Another command takes over if it replaces or deletes the pid file `record`.
        """
        with self._lock():
            self._me.write(self._record)
        is_over = threading.Event()
        # In a thread, since the start of PostgreSQL may wait for a suspended process.
        hunter = threading.Thread(target=self._kill_stopped, args=(is_over,), daemon=True)
        hunter.start()
        try:
            self._look_after_all(until)
        finally:
            is_over.set()
            hunter.join()

    def _look_after_all(self, until: threading.Event) -> None:
        while not until.wait(POLL_SECONDS):
            healthy = self._servers.healthy(Part)
            for part in Part:
                self._look_after(part, healthy)
            if not self._is_in_charge():
                self._say("another command has taken over the stack; this one stops supervising")
                return
        with self._lock():
            if self._is_in_charge():
                self._record.unlink(missing_ok=True)

    def _is_in_charge(self) -> bool:
        return ProcessRecord.read(self._record) == self._me

    def _look_after(self, part: Part, healthy: set[Part]) -> None:
        if part in AIRFLOW_PARTS and Part.POSTGRES not in healthy:
            return  # Airflow's services would exit at once without the database
        watch, main = self._watches[part], self._servers.find(part)
        is_told_by_another = part in AIRFLOW_PARTS and part is not Part.API_SERVER
        why = watch.judge(
            is_running=main is not None,
            is_healthy=part in healthy,
            is_known=not is_told_by_another or Part.API_SERVER in healthy,
            now=time.monotonic(),
        )
        if why is not None:
            self._restart(part, main, why)

    def _restart(self, part: Part, main: psutil.Process | None, why: str) -> None:
        watch = self._watches[part]
        with self._lock():
            # `make up` may have restarted it while this process waited for the lock.
            if not self._is_in_charge() or self._servers.find(part) != main:
                return
            again = f" (restart {watch.restarts + 1} in a row)" if watch.restarts else ""
            self._say(f"{part}: {why}; restarting it{again}")
            try:
                self._servers.end(part)
                self._servers.launch(part)
            except StackError as error:
                self._say(str(error))
            finally:
                watch.restarted(time.monotonic())

    def _kill_stopped(self, is_over: threading.Event) -> None:
        """Kills processes of the stack that have been suspended for `STOPPED_SECONDS`.

        A process that a signal has suspended may hold locks for which other processes wait.
        """
        stopped_since: dict[psutil.Process, float] = {}
        while not is_over.wait(POLL_SECONDS):
            now = time.monotonic()
            stopped = find_stopped(self._servers.processes())
            stopped_since = {process: stopped_since.get(process, now) for process in stopped}
            for process in [
                each for each in stopped if now - stopped_since[each] >= STOPPED_SECONDS
            ]:
                with contextlib.suppress(psutil.Error):
                    name = process.name()
                    process.kill()
                    self._say(
                        f"killed process {process.pid} ({name}): a signal had stopped it for "
                        f"{STOPPED_SECONDS:.0f} s"
                    )
