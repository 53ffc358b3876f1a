"""Uploads the logs of a pod's containers to the store, periodically and once at the end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from hpo_ops.checkpoints import STORE_ERRORS, LogRef, Logs
from hpo_ops.protocol import UnsafeFileError, open_regular

logger = logging.getLogger(__name__)

SHIP_SECONDS = 20.0
"""Time between two uploads; if the node is lost, the log since the last upload is lost."""
RETRY_SECONDS = 0.5
MAX_PART_BYTES = 16 << 20


class LogShipper:
    """Uploads the logs of one segment (one uninterrupted execution of a trial) part by part.

    Args:
        logs: The study's logs in the store.
        trial: The trial's number.
        segment: The segment's id.
        files: The path of each log file, by the log's name in the store.
    """

    def __init__(self, logs: Logs, trial: int, segment: str, files: Mapping[str, Path]) -> None:
        self._logs = logs
        self._refs = {LogRef(trial, segment, name): path for name, path in files.items()}
        self._offsets = dict.fromkeys(self._refs, 0)
        self._parts = dict.fromkeys(self._refs, 0)
        self._refused: set[LogRef] = set()
        self._ship_at: float | None = None
        self._thread: threading.Thread | None = None

    def ship_if_due(self, now: float) -> None:
        """Uploads new log data in the background, at most once every `SHIP_SECONDS`.

        Does nothing if the interval has not passed since the last upload (or the first call), or
        if an upload is still running.

        Args:
            now: Monotonic time in seconds.
        """
        if self._ship_at is None:
            self._ship_at = now + SHIP_SECONDS
        if now < self._ship_at or (self._thread is not None and self._thread.is_alive()):
            return
        self._ship_at = now + SHIP_SECONDS
        self._thread = threading.Thread(target=self.ship, name="hpo-logs", daemon=True)
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Uploads the rest of all logs; repeats failed uploads for at most `seconds`."""
        give_up_at = time.monotonic() + seconds
        if self._thread is not None:
            self._thread.join(seconds)
        last = threading.Thread(
            target=self._ship_all, args=(give_up_at,), name="hpo-logs", daemon=True
        )
        last.start()
        last.join(give_up_at - time.monotonic())

    def _ship_all(self, give_up_at: float) -> None:
        while not self.ship() and time.monotonic() < give_up_at:
            time.sleep(RETRY_SECONDS)

    def ship(self) -> bool:
        """Uploads the log data that was written since the last call.

        Returns:
            False if an upload failed; the next call repeats it.
        """
        is_all = True
        for ref, path in self._refs.items():
            if ref in self._refused:
                continue
            try:
                while part := _read(path, self._offsets[ref]):
                    self._logs.write(ref, self._parts[ref], part)
                    self._offsets[ref] += len(part)
                    self._parts[ref] += 1
            except UnsafeFileError as error:
                logger.warning("the log of %s is not shipped: %s", ref.container, error)
                self._refused.add(ref)
            except STORE_ERRORS as error:
                logger.warning("the log of %s was not shipped: %s", ref.container, error)
                is_all = False
        return is_all


def _read(path: Path, offset: int) -> bytes:
    try:
        with open_regular(path) as stream:
            stream.seek(offset)
            return stream.read(MAX_PART_BYTES)
    except FileNotFoundError:
        return b""
