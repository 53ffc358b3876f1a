"""A segment whose agent runs in this process, from its restored checkpoint to its result."""

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
    """A segment that has run, and what of it is still to be delivered to the gateway.

    Attributes:
        result: How it ended, as its agent judges.
        receipt: The gateway's answer to the result; None if the agent could not deliver it.
        unsent: Reports that the agent could not deliver.
        reports: All reports of the segment, if the agent could not deliver its result.
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

    The training resumes from the newest complete checkpoint up to ``from_step``: if that of
    ``from_step`` is lost, from an older one, and without any from the beginning.

    Args:
        assignment: What to run.
        root: The workspace directory; what an earlier segment left there is deleted.
        runner: Runs the training.
        gateway: Where reports go and decisions come from.
        checkpoints: Those of the study; None saves locally only, so nothing can be resumed.
        known: What is known of what the training is made from.
        finish_seconds: How long to try to get everything out at the end.

    Returns:
        How the segment ended, and the gateway's answer.

    Raises:
        GatewayRefusedError: The gateway has closed the segment already.
        OSError, obstore.exceptions.BaseError: The store is away and there is work to restore.
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
    """The reports of a segment, up to the first one that cannot be read."""
    found: list[Report] = []
    with contextlib.suppress(ProtocolError, OSError):
        for report in ReportReader(workspace.reports).new():
            found.append(report)
    return found
