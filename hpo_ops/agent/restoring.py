"""What comes before a training and may take long, with signs of life in between."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

from hpo_ops.checkpoints import Checkpoints
from hpo_ops.client import GatewayUnreachableError, SegmentGateway
from hpo_ops.protocol import Assignment, Workspace

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 3.0
Done = TypeVar("Done")


def restore_checkpoint(
    checkpoints: Checkpoints, assignment: Assignment, workspace: Workspace, gateway: SegmentGateway
) -> int | None:
    """Puts the newest whole checkpoint in place: the trial's own, or else its parent's.

    Returns:
        Its step; None where the training begins afresh.
    """
    if assignment.from_step == 0:
        return None

    def restore() -> int | None:
        for trial in (assignment.trial, assignment.parent):
            if trial is None:
                continue
            step = checkpoints.restore(trial, workspace.checkpoints, at_most=assignment.from_step)
            if step is not None:
                logger.info("restored the checkpoint of trial %d at step %d", trial, step)
                return step
        return None

    return with_signs_of_life(restore, gateway)


def with_signs_of_life(work: Callable[[], Done], gateway: SegmentGateway) -> Done:
    """Does the work, while the gateway hears that the segment is alive."""
    future: Future[Done] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001, raised again by result()
            future.set_exception(error)

    Thread(target=run, name="hpo-restore", daemon=True).start()
    while True:
        try:
            return future.result(HEARTBEAT_SECONDS)
        except TimeoutError:
            if future.done():
                raise
            try:
                gateway.report([])
            except GatewayUnreachableError as error:
                logger.warning("the gateway is away: %s", error)
