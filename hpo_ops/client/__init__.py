"""The gateway's client and the shapes it speaks."""

from hpo_ops.client.detail import SegmentDetail, TrialDetail
from hpo_ops.client.experiments import Experiment, Repeat
from hpo_ops.client.http import GatewayClient, SegmentClient
from hpo_ops.client.jobs import JobStatus
from hpo_ops.client.messages import (
    Best,
    Ending,
    FoldSummary,
    Group,
    PoolSummary,
    Progress,
    Retraining,
    Score,
    Served,
    StudyHandle,
    StudyRequest,
    TrialSummary,
    Turn,
    TurnKind,
    Verdict,
    VerdictKind,
    Waiting,
)
from hpo_ops.client.recording import ReportPage, SegmentSummary
from hpo_ops.client.segment import (
    GatewayRefusedError,
    GatewayUnreachableError,
    SegmentGateway,
)

__all__ = [
    "Best",
    "Ending",
    "Experiment",
    "FoldSummary",
    "GatewayClient",
    "GatewayRefusedError",
    "GatewayUnreachableError",
    "Group",
    "JobStatus",
    "PoolSummary",
    "Progress",
    "Repeat",
    "ReportPage",
    "Retraining",
    "Score",
    "SegmentClient",
    "SegmentDetail",
    "SegmentGateway",
    "SegmentSummary",
    "Served",
    "StudyHandle",
    "StudyRequest",
    "TrialDetail",
    "TrialSummary",
    "Turn",
    "TurnKind",
    "Verdict",
    "VerdictKind",
    "Waiting",
]
