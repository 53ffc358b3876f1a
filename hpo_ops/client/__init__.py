"""HTTP clients of the gateway (the platform's HTTP API), and the messages that they exchange."""

from hpo_ops.client._gateway_client import GatewayClient
from hpo_ops.client._gateway_errors import GatewayRefusedError, GatewayUnreachableError
from hpo_ops.client._next_action import NextAction, NextActionKind, Waiter, WakeUp
from hpo_ops.client._pool_messages import PoolSummary
from hpo_ops.client._recording_messages import ReportPage, SegmentSummary
from hpo_ops.client._round_messages import AbsorbedScores, CollectedRound, PlannedTrial, Round
from hpo_ops.client._segment_client import SegmentClient
from hpo_ops.client._segment_gateway import SegmentGateway, SegmentReceipt
from hpo_ops.client._study_handle import StudyHandle, StudyRequest
from hpo_ops.client._study_progress import (
    Best,
    Progress,
    Retraining,
    StudyVerdict,
    VerdictKind,
)
from hpo_ops.client._trial_results import (
    FoldSummary,
    SegmentDetail,
    Served,
    TrialDetail,
    TrialResult,
    TrialSummary,
    UnconfirmedEnd,
)
from hpo_ops.client._triggerer_client import TriggererClient
from hpo_ops.client.experiment_messages import Experiment, Repeat
from hpo_ops.client.job_messages import JobStatus

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
