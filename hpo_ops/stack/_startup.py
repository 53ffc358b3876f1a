"""Starts several services of a stack in parallel, and waits until each is healthy or fails."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Protocol

import psutil

from hpo_ops.stack._stack_parts import (
    AIRFLOW_PARTS,
    Part,
    PartFailedError,
    Phase,
    Progress,
    Update,
)


class PartControl(Protocol):
    """The operations on services that `Startup` calls; `Servers` implements them."""

    def find(self, part: Part) -> psutil.Process | None: ...

    def healthy(self, parts: Iterable[Part]) -> set[Part]: ...

    def launch(self, part: Part) -> None: ...

    def end(self, part: Part) -> None: ...

    def failure(self, part: Part, why: str) -> PartFailedError: ...


class Startup:
    """The parallel start of several services.

    A service that was already running but stays unhealthy for `hang_seconds` is replaced. A
    service that fails is stopped, and the start of the other services continues, unless the
    api-server fails: without it, the health of Airflow's other services is unknown.

    Args:
        servers: Starts, checks and ends the services of the stack.
        parts: The services to start.
        started: A list to which each launched service is added.
        progress: Called with each progress update.
        start_seconds: Maximum seconds from the launch of a service until it is healthy.
        hang_seconds: Maximum seconds for which an already running service may be unhealthy.
    """

    def __init__(
        self,
        servers: PartControl,
        parts: Collection[Part],
        *,
        started: list[Part],
        progress: Progress,
        start_seconds: float,
        hang_seconds: float,
    ) -> None:
        self._servers = servers
        self._waiting = set(parts)
        self._started = started
        self._progress = progress
        self._start_seconds = start_seconds
        self._hang_seconds = hang_seconds
        self._launched_at: dict[Part, float] = {}
        self._unhealthy_since: dict[Part, float] = {}
        self._failures: list[PartFailedError] = []

    def run(self) -> list[PartFailedError]:
        """Starts the services; returns the errors once each service is healthy or has failed."""
        while True:
            self._launch_missing()
            self._announce(self._servers.healthy(self._waiting))
            self._judge(time.monotonic())
            if not self._waiting:
                return self._failures
            time.sleep(0.2)

    def _launch_missing(self) -> None:
        for part in _in_start_order(self._waiting):
            if self._servers.find(part) is not None:
                continue
            if part in self._launched_at:
                self._fail(part, "its process exited")
            else:
                self._launch(part, Phase.STARTING)

    def _launch(self, part: Part, phase: Phase) -> None:
        self._progress(Update(part, phase))
        self._started.append(part)
        self._launched_at[part] = time.monotonic()
        self._servers.launch(part)

    def _announce(self, healthy: Iterable[Part]) -> None:
        for part in _in_start_order(healthy):
            self._waiting.discard(part)
            if (launched_at := self._launched_at.get(part)) is None:
                self._progress(Update(part, Phase.ALREADY_RUNNING))
            else:
                self._progress(Update(part, Phase.READY, time.monotonic() - launched_at))

    def _judge(self, now: float) -> None:
        for part in _in_start_order(self._waiting):
            if (launched_at := self._launched_at.get(part)) is not None:
                if now - launched_at > self._start_seconds:
                    self._fail(part, f"it is not healthy after {self._start_seconds:.0f} s")
            elif not self._can_be_judged(part):
                self._unhealthy_since.pop(part, None)
            elif now - self._unhealthy_since.setdefault(part, now) > self._hang_seconds:
                self._servers.end(part)
                self._launch(part, Phase.REPLACING)

    def _can_be_judged(self, part: Part) -> bool:
        """Returns whether the health of a service is known.

        The api-server reports the health of Airflow's other services, so it must be healthy first.
        """
        is_told_by_another = part in AIRFLOW_PARTS and part is not Part.API_SERVER
        return not (is_told_by_another and Part.API_SERVER in self._waiting)

    def _fail(self, part: Part, why: str) -> None:
        self._failures.append(self._servers.failure(part, why))
        self._servers.end(part)
        self._waiting.discard(part)
        if part is Part.API_SERVER:  # without it the health of the others is unknown
            self._waiting.clear()


def _in_start_order(parts: Iterable[Part]) -> list[Part]:
    return sorted(parts, key=list(Part).index)
