"""Starts and controls the container of a training for the task that runs its segment.

A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import BinaryIO

from hpo_ops.runners.docker._engine_api import (
    ContainerExit,
    DockerEngine,
    DockerError,
    DockerUnreachableError,
    NoSuchContainerError,
    NoSuchImageError,
)

logger = logging.getLogger(__name__)

CANNOT_START = 127
"""The exit code recorded for a container that could not be started, as in shells."""
ENGINE_SECONDS = 60.0
"""How long requests are repeated to an engine that does not answer, such as during a restart."""
RETRY_SECONDS = 1.0
CLOSE_SECONDS = 30.0

LOST = ContainerExit(code=-signal.SIGKILL, is_out_of_memory=False)
"""The exit recorded for a container that was removed, or whose engine does not answer any more.

It is the exit of a killed process.
"""


class ContainerProcess:
    """The container of a training, and the thread that copies its output to a log file.

    If the engine refuses to start the container, the exit code is 127 and the log contains the
    engine's reason.

    Args:
        engine: The Docker Engine that runs the container.
        spec: The body of the engine's request ``POST /containers/create``.
        name: The container's name, for people only.
        log: The file to which the container's output is written; `close` closes the file.
        sleep: Waits between two attempts to reach the engine.

    Raises:
        DockerUnreachableError: The engine does not answer.
    """

    def __init__(
        self,
        engine: DockerEngine,
        spec: Mapping[str, object],
        *,
        name: str,
        log: BinaryIO,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._engine = engine
        self._log = log
        self._sleep = sleep
        self._ended = threading.Event()
        self._exit: ContainerExit | None = None
        self._container: str | None = None
        self._is_killed = False
        self._thread: threading.Thread | None = None
        try:
            self._start(spec, name)
        except DockerUnreachableError:
            self.close()
            raise
        except DockerError as error:
            self._log.write(f"{error}\n".encode())
            self._log.flush()
            self._exit = ContainerExit(code=CANNOT_START, is_out_of_memory=False)
            self._ended.set()

    @property
    def is_out_of_memory(self) -> bool:
        """Whether the training failed because it exceeded its memory limit.

        The value is False for a training that exited with code 0, even if the kernel killed one
        of its children.
        """
        return self._exit is not None and self._exit.is_out_of_memory and self._exit.code != 0

    def wait(self, timeout_seconds: float) -> int | None:
        """Waits for the end of the container.

        Returns:
            The container's exit code, or -9 if the container was removed or its engine no longer
            answers; None if the container still runs after the timeout.
        """
        self._ended.wait(timeout_seconds)
        return None if self._exit is None else self._exit.code

    def terminate(self) -> None:
        """Sends SIGTERM only to the training's main process; its children may help to save."""
        self._send("SIGTERM")

    def kill(self) -> None:
        """Sends SIGKILL to the container, which ends all its processes."""
        if not self._is_killed:
            self._is_killed = True
            self._send("SIGKILL")

    def close(self) -> None:
        """Removes the container, even if it still runs, and closes the log."""
        if self._container is not None:
            try:
                self._engine.remove(self._container)
            except DockerError as error:
                logger.warning("a container is left for the reconciler: %s", error)
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
        self._log.close()

    def _start(self, spec: Mapping[str, object], name: str) -> None:
        try:
            self._container = self._engine.create(spec, name=name)
        except NoSuchImageError:
            image = str(spec["Image"])
            logger.info("the engine does not have the image %s: it is pulled", image)
            self._engine.pull(image)
            self._container = self._engine.create(spec, name=name)
        self._engine.start(self._container)
        self._thread = threading.Thread(
            target=self._follow, args=(self._container,), name="hpo-container", daemon=True
        )
        self._thread.start()

    def _follow(self, container: str) -> None:
        """Copies a container's output to the log until the container ends; records its exit code.

        The log is therefore complete when `wait` returns the exit code.
        """
        try:
            self._copy_output(container)
            self._exit = self._wait(container)
        finally:
            if self._exit is None:
                self._exit = LOST
            self._ended.set()

    def _copy_output(self, container: str) -> None:
        try:
            for part in self._engine.follow_output(container):
                self._log.write(part)
                self._log.flush()
        except (DockerError, OSError, ValueError) as error:
            logger.warning("the log of the training ends early: %s", error)

    def _wait(self, container: str) -> ContainerExit:
        give_up_at = time.monotonic() + ENGINE_SECONDS
        while True:
            try:
                return self._engine.wait(container)
            except NoSuchContainerError:
                return LOST
            except DockerError as error:
                if time.monotonic() > give_up_at:
                    logger.warning("the container is given up: %s", error)
                    return LOST
                self._sleep(RETRY_SECONDS)

    def _send(self, name: str) -> None:
        if self._container is None:
            return
        try:
            self._engine.send_signal(self._container, name)
        except DockerError as error:
            logger.warning("%s was not sent: %s", name, error)
