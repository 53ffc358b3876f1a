"""Restores a checkpoint before a training starts, and sends heartbeats during the download."""

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
    """Downloads the checkpoint from which the trial resumes into the workspace.

    Returns:
        The assignment for the training. Its ``from_step`` is the step of the restored checkpoint,
        or 0 if no checkpoint was restored.
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
    """Returns a copy of the assignment without the fields that only the agent may see."""
    return replace(assignment, checkpoint_store=None, restore_from=None, saved=None)


def with_heartbeats(work: Callable[[], Done], gateway: SegmentGateway) -> Done:
    """Calls `work` in a thread and sends heartbeats to the gateway until the call has ended.

    Returns:
        The result of `work`. An exception of `work` is raised in the caller's thread.
    """
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
