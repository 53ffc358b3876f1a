"""The gateway's client and the shapes it speaks."""

from hpo_ops.client.experiment_messages import Experiment, Repeat
from hpo_ops.client.http_client import GatewayClient, SegmentClient
from hpo_ops.client.job_messages import JobStatus
from hpo_ops.client.recording_messages import ReportPage, SegmentSummary
from hpo_ops.client.segment_gateway import (
    GatewayRefusedError,
    GatewayUnreachableError,
    SegmentGateway,
)
from hpo_ops.client.study_messages import (
    Best,
    FoldSummary,
    Group,
    NextAction,
    NextActionKind,
    PoolSummary,
    Progress,
    Retraining,
    SegmentReceipt,
    Served,
    StudyHandle,
    StudyRequest,
    TrialResult,
    TrialSummary,
    Verdict,
    VerdictKind,
    Waiting,
)
from hpo_ops.client.trial_messages import SegmentDetail, TrialDetail

__all__ = [
    "Best",
    "Experiment",
    "FoldSummary",
    "GatewayClient",
    "GatewayRefusedError",
    "GatewayUnreachableError",
    "Group",
    "JobStatus",
    "NextAction",
    "NextActionKind",
    "PoolSummary",
    "Progress",
    "Repeat",
    "ReportPage",
    "Retraining",
    "SegmentClient",
    "SegmentDetail",
    "SegmentGateway",
    "SegmentReceipt",
    "SegmentSummary",
    "Served",
    "StudyHandle",
    "StudyRequest",
    "TrialDetail",
    "TrialResult",
    "TrialSummary",
    "Verdict",
    "VerdictKind",
    "Waiting",
]
