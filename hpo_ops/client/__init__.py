"""The clients of the gateway, and their messages."""

from hpo_ops.client.experiment_messages import Experiment, Repeat
from hpo_ops.client.gateway_client import GatewayClient
from hpo_ops.client.gateway_errors import GatewayRefusedError, GatewayUnreachableError
from hpo_ops.client.job_messages import JobStatus
from hpo_ops.client.next_action import NextAction, NextActionKind, Waiter, WakeUp
from hpo_ops.client.pool_messages import PoolSummary
from hpo_ops.client.recording_messages import ReportPage, SegmentSummary
from hpo_ops.client.round_messages import AbsorbedScores, CollectedRound, PlannedTrial, Round
from hpo_ops.client.segment_client import SegmentClient
from hpo_ops.client.segment_gateway import SegmentGateway, SegmentReceipt
from hpo_ops.client.study_handle import StudyHandle, StudyRequest
from hpo_ops.client.study_progress import (
    Best,
    Progress,
    Retraining,
    StudyVerdict,
    VerdictKind,
)
from hpo_ops.client.trial_results import (
    FoldSummary,
    SegmentDetail,
    Served,
    TrialDetail,
    TrialResult,
    TrialSummary,
    UnconfirmedEnd,
)
from hpo_ops.client.triggerer_client import TriggererClient

__all__ = [
    "AbsorbedScores",
    "Best",
    "CollectedRound",
    "Experiment",
    "FoldSummary",
    "GatewayClient",
    "GatewayRefusedError",
    "GatewayUnreachableError",
    "JobStatus",
    "NextAction",
    "NextActionKind",
    "PlannedTrial",
    "PoolSummary",
    "Progress",
    "Repeat",
    "ReportPage",
    "Retraining",
    "Round",
    "SegmentClient",
    "SegmentDetail",
    "SegmentGateway",
    "SegmentReceipt",
    "SegmentSummary",
    "Served",
    "StudyHandle",
    "StudyRequest",
    "StudyVerdict",
    "TrialDetail",
    "TrialResult",
    "TrialSummary",
    "TriggererClient",
    "UnconfirmedEnd",
    "VerdictKind",
    "Waiter",
    "WakeUp",
]
