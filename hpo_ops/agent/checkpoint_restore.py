"""Before a training starts: work that may take long, with signs of life in between."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import TypeVar

from hpo_ops.checkpoints import Checkpoints
from hpo_ops.client import GatewayUnreachableError, SegmentGateway
from hpo_ops.protocol import Assignment, Workspace

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 3.0
Done = TypeVar("Done")


def restore_checkpoint(
    assignment: Assignment,
    workspace: Workspace,
    checkpoints: Checkpoints,
    gateway: SegmentGateway,
) -> Assignment:
    """Puts the checkpoint to go on from in place.

    Returns:
        The assignment as the training gets it: from the step that was restored.
    """
    step = None
    if assignment.from_step > 0:
        work = partial(
            checkpoints.restore,
            assignment.trial,
            workspace.checkpoints,
            at_most=assignment.from_step,
            place=assignment.restore_from,
            saved=assignment.saved,
        )
        step = with_signs_of_life(work, gateway)
        logger.info("restored the checkpoint of step %s", step)
    return without_platform(replace(assignment, from_step=step or 0))


def without_platform(assignment: Assignment) -> Assignment:
    """An assignment without what is the agent's business only."""
    return replace(assignment, checkpoint_store=None, restore_from=None, saved=None)


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
