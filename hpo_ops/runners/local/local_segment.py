"""One segment on this machine, from its restored checkpoint to its result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hpo_ops.agent import Agent
from hpo_ops.agent.checkpoint_restore import restore_checkpoint, without_platform
from hpo_ops.checkpoints import Checkpoints
from hpo_ops.client import SegmentGateway, SegmentReceipt
from hpo_ops.protocol import Assignment, Provenance, Report, SegmentResult, Workspace
from hpo_ops.runners.training_loop import SegmentRunner


@dataclass(frozen=True)
class SegmentEnd:
    """How a segment ended.

    Attributes:
        result: As the agent judges it.
        ending: What the gateway made of it; None where it has not heard of it.
        unsent: Reports that the gateway has not heard of.
    """

    result: SegmentResult
    ending: SegmentReceipt | None
    unsent: Sequence[Report] = ()


def run_segment(
    assignment: Assignment,
    *,
    root: Path,
    runner: SegmentRunner,
    gateway: SegmentGateway,
    checkpoints: Checkpoints | None = None,
    known: Callable[[], Provenance] = Provenance,
    finish_seconds: float = 120.0,
) -> SegmentEnd:
    """Restores, trains, reports.

    The training goes on from the newest whole checkpoint up to ``from_step``: when the one of
    that step is lost, from an older one, and without any from the beginning.

    Args:
        assignment: What to run.
        root: The workspace directory; what an earlier segment left there is deleted.
        runner: Runs the training.
        gateway: Where reports go and decisions come from.
        checkpoints: Those of the study; None saves locally only, so nothing can be resumed.
        known: What is known of what the training is made from.
        finish_seconds: How long to try to get everything out at the end.

    Returns:
        How the segment ended, and what the gateway made of it.

    Raises:
        GatewayRefusedError: The segment belongs to someone else already.
        OSError, obstore.exceptions.BaseError: The store is away and there is work to restore.
    """
    workspace = Workspace(root)
    shutil.rmtree(root, ignore_errors=True)
    upload = None
    if checkpoints is None:
        assignment = without_platform(replace(assignment, from_step=0))
    else:
        upload = partial(checkpoints.upload, assignment.trial)
        assignment = restore_checkpoint(assignment, workspace, checkpoints, gateway)
    workspace.prepare(assignment)
    agent = Agent(
        workspace, assignment, gateway, upload=upload, known=known, finish_seconds=finish_seconds
    )
    result = runner.run(workspace, agent, grace_seconds=assignment.grace_seconds)
    return SegmentEnd(result, agent.ending, agent.unsent)
