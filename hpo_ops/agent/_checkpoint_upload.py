"""Uploads a training's newest checkpoint in a background thread; older checkpoints are skipped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Protocol

from hpo_ops.checkpoints import STORE_ERRORS, BadCheckpointError
from hpo_ops.protocol import Checkpoint, Folder, UnsafeFileError

logger = logging.getLogger(__name__)

MAX_DELAY_SECONDS = 5.0


class Upload(Protocol):
    """A function that uploads the open checkpoint folder of a step; safe to call again."""

    def __call__(self, step: int, folder: Folder) -> Checkpoint: ...


class Uploader:
    """Uploads the newest checkpoint that `offer` has queued, and skips older checkpoints.

    The upload thread is a daemon thread, so that the process can exit while the store hangs. The
    thread is started by the first call of `offer`.

    Args:
        upload: Uploads an open checkpoint folder.
        open_folder: Opens the checkpoint folder of a step, without following links.

    Attributes:
        uploading: The step whose checkpoint is being uploaded, or None if no upload is running.
    """

    def __init__(self, upload: Upload, open_folder: Callable[[int], Folder]) -> None:
        self._upload = upload
        self._open_folder = open_folder
        self._changed = threading.Condition()
        self._wanted: int | None = None
        self._done = 0
        self._thread: threading.Thread | None = None
        self._settled: SimpleQueue[Checkpoint | BadCheckpointError] = SimpleQueue()
        self._is_closed = False
        self.uploading: int | None = None

    def offer(self, step: int) -> None:
        """Queues the checkpoint of a step for upload, in place of an older queued checkpoint.

        Does nothing if the checkpoint of this step or of a later step was already queued or
        uploaded, or after `close`.
        """
        with self._changed:
            if self._is_closed or step <= max(self._done, self._wanted or 0):
                return
            self._wanted = step
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="hpo-uploader", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    @property
    def is_idle(self) -> bool:
        """Whether all uploads have ended and `settled` has returned their results.

        Also true after `close`.
        """
        with self._changed:
            return (self._wanted is None and self._settled.empty()) or self._is_closed

    def wait_idle(self, timeout_seconds: float) -> bool:
        """Waits until no upload is left; returns False if the timeout expires first."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._wanted is None or self._is_closed, timeout_seconds
            )

    def settled(self) -> list[Checkpoint | BadCheckpointError]:
        """Returns the results of the uploads that have ended since the last call.

        A result is either a checkpoint that is complete in the store, or an error with the reason
        why the checkpoint can never be uploaded.
        """
        settled = []
        while True:
            try:
                settled.append(self._settled.get_nowait())
            except Empty:
                return settled

    def close(self) -> None:
        """Prevents further uploads; does not wait for an upload that is running."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        delay = 0.1
        while (step := self._next()) is not None:
            try:
                with self._open(step) as folder:
                    self._settled.put(self._upload(step, folder))
            except BadCheckpointError as error:
                self._settled.put(error)
            except STORE_ERRORS as error:
                logger.warning(
                    "checkpoint %d was not uploaded and is tried again: %s", step, error
                )
                self._pause(delay)
                delay = min(2 * delay, MAX_DELAY_SECONDS)
                continue
            delay = 0.1
            self._settle(step)

    def _next(self) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: self._wanted is not None or self._is_closed)
            self.uploading = None if self._is_closed else self._wanted
            return self.uploading

    def _open(self, step: int) -> Folder:
        try:
            return self._open_folder(step)
        except FileNotFoundError as error:
            raise BadCheckpointError(f"checkpoint {step}: the folder is gone") from error
        except UnsafeFileError as error:
            raise BadCheckpointError(f"checkpoint {step}: {error}") from error

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self.uploading = None
            self._changed.wait_for(lambda: self._is_closed, seconds)

    def _settle(self, step: int) -> None:
        with self._changed:
            self._done = step
            self.uploading = None
            if self._wanted == step:
                self._wanted = None
            self._changed.notify_all()
