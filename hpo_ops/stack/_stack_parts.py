"""Defines the services ("parts") of a stack, and progress updates and errors about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Part(StrEnum):
    """The services of a stack: PostgreSQL, the S3 server and four services of Airflow.

    They are listed in the order in which they start.
    """

    POSTGRES = "postgres"
    S3 = "s3"
    API_SERVER = "api-server"
    SCHEDULER = "scheduler"
    DAG_PROCESSOR = "dag-processor"
    TRIGGERER = "triggerer"


AIRFLOW_PARTS = (Part.API_SERVER, Part.SCHEDULER, Part.DAG_PROCESSOR, Part.TRIGGERER)


class Phase(StrEnum):
    """The possible phases of the start or stop of a service, as texts for the user."""

    STARTING = "starting"
    MIGRATING = "migrating its database"
    READY = "ready"
    ALREADY_RUNNING = "already running"
    REPLACING = "running but not healthy; replacing it"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Update:
    """A progress update: a service, its new phase, and the seconds taken to reach the phase.

    `seconds` is None for a phase without a duration, such as `STARTING`.
    """

    part: Part
    phase: Phase
    seconds: float | None = None

    def __str__(self) -> str:
        took = f" ({self.seconds:.1f} s)" if self.seconds is not None else ""
        return f"{self.part}: {self.phase}{took}"


Progress = Callable[[Update], None]


@dataclass(frozen=True)
class PartStatus:
    """The state of a service. A running service is not healthy while it starts or hangs."""

    part: Part
    pid: int | None
    is_healthy: bool
    log: Path

    @property
    def is_running(self) -> bool:
        return self.pid is not None


class StackError(RuntimeError):
    """The stack cannot be started, stopped or used; the message says why."""


class PartFailedError(StackError):
    """A service did not start; the message contains the path and the last lines of its log."""

    def __init__(self, part: Part, *, why: str, log: Path) -> None:
        self.part = part
        self.log = log
        super().__init__(f"{part} did not start: {why}\nlog: {log}\n{tail(log)}".rstrip())


def tail(log: Path, *, lines: int = 20) -> str:
    """Returns the last lines of a log file, indented; an empty text if the file is missing."""
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 16_384))
        text = file.read().decode(errors="replace")
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
