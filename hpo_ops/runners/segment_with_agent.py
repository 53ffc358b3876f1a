"""Runs a segment (one uninterrupted execution of a trial) whose agent runs in this process.

The agent sends the training's reports and checkpoints to the platform, and passes decisions to
the training.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hpo_ops.agent import Agent
from hpo_ops.agent.checkpoint_restore import for_training, restore_checkpoint
from hpo_ops.checkpoints import Checkpoints
from hpo_ops.client import SegmentGateway, SegmentReceipt
from hpo_ops.protocol import (
    Assignment,
    ProtocolError,
    Provenance,
    Report,
    ReportReader,
    SegmentResult,
    Workspace,
)
from hpo_ops.runners.training_loop import SegmentRunner


@dataclass(frozen=True)
class FinishedSegment:
    """The result of a segment that has ended, and the messages not yet delivered to the gateway.

    Attributes:
        result: How the segment ended, as its agent judges.
        receipt: The gateway's answer to the result; None if the agent could not deliver the
            result.
        unsent: Reports that the agent could not deliver.
        reports: All reports of the segment if the agent could not deliver the result; otherwise
            empty.
    """

    result: SegmentResult
    receipt: SegmentReceipt | None
    unsent: Sequence[Report] = ()
    reports: Sequence[Report] = ()


def run_segment(
    assignment: Assignment,
    *,
    root: Path,
    runner: SegmentRunner,
    gateway: SegmentGateway,
    checkpoints: Checkpoints | None = None,
    known: Callable[[], Provenance] = Provenance,
    finish_seconds: float = 120.0,
) -> FinishedSegment:
    """Runs one segment: restores its checkpoint, trains, and reports to the gateway.

    The training resumes from the newest complete checkpoint whose step is at most the
    assignment's ``from_step``. If no such checkpoint exists, the training starts from the
    beginning.

    Args:
        assignment: The segment to run: parameters, first and last step, seed.
        root: The workspace directory; files of an earlier segment in it are deleted.
        runner: Runs the training, as a process or a container.
        gateway: Receives the reports and answers with decisions.
        checkpoints: The study's checkpoints in the store; None if checkpoints are saved only
            locally, so that the trial cannot be resumed.
        known: Returns what the caller knows of the training's provenance, such as the code hash.
        finish_seconds: How long the agent tries to deliver the remaining messages at the end.

    Returns:
        How the segment ended, and the gateway's answer.

    Raises:
        GatewayRefusedError: The gateway has already closed the segment.
        OSError, obstore.exceptions.BaseError: A checkpoint must be restored, but the store
            cannot be reached.
    """
    workspace = Workspace(root)
    shutil.rmtree(root, ignore_errors=True)
    upload = None
    if checkpoints is None:
        assignment = for_training(replace(assignment, from_step=0))
    else:
        upload = partial(checkpoints.upload, assignment.trial)
        assignment = restore_checkpoint(assignment, workspace, checkpoints, gateway)
    workspace.prepare(assignment)
    agent = Agent(
        workspace, assignment, gateway, upload=upload, known=known, finish_seconds=finish_seconds
    )
    result = runner.run(workspace, agent, grace_seconds=assignment.grace_seconds)
    reports = [] if agent.receipt is not None else _read_reports(workspace)
    return FinishedSegment(result, agent.receipt, agent.unsent, reports)


def _read_reports(workspace: Workspace) -> list[Report]:
    """Returns the reports in a segment's workspace, up to the first that cannot be read."""
    found: list[Report] = []
    with contextlib.suppress(ProtocolError, OSError):
        for report in ReportReader(workspace.reports).new():
            found.append(report)
    return found
