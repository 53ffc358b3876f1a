"""Restores a checkpoint before a training starts, and sends heartbeats meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import TypeVar

from hpo_ops.agent._outbox import HEARTBEAT_SECONDS
from hpo_ops.checkpoints import Checkpoints
from hpo_ops.client import GatewayUnreachableError, SegmentGateway
from hpo_ops.protocol import Assignment, Workspace

logger = logging.getLogger(__name__)

Done = TypeVar("Done")


def restore_checkpoint(
    assignment: Assignment,
    workspace: Workspace,
    checkpoints: Checkpoints,
    gateway: SegmentGateway,
) -> Assignment:
    """Restores the checkpoint to resume from into the workspace.

    Returns:
        The assignment for the training; its ``from_step`` is the step that was restored.
    """
    step = None
    if assignment.from_step > 0:
        work = partial(
            checkpoints.restore,
            assignment.trial,
            workspace.checkpoints,
            at_most=assignment.from_step,
            first_folder=assignment.restore_from,
            saved=assignment.saved,
        )
        step = with_heartbeats(work, gateway)
        logger.info("restored the checkpoint of step %s", step)
    return for_training(replace(assignment, from_step=step or 0))


def for_training(assignment: Assignment) -> Assignment:
    """The assignment without the fields that are for the agent only."""
    return replace(assignment, checkpoint_store=None, restore_from=None, saved=None)


def with_heartbeats(work: Callable[[], Done], gateway: SegmentGateway) -> Done:
    """Does the work in a thread and sends heartbeats to the gateway until it is done."""
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
                logger.warning("cannot reach the gateway: %s", error)
