"""The gateway's client and the shapes it speaks."""

from hpo_ops.client.http import GatewayClient, SegmentClient
from hpo_ops.client.messages import (
    Best,
    Ending,
    Group,
    Progress,
    ReportPage,
    Score,
    SegmentSummary,
    StudyHandle,
    StudyRequest,
    TrialSummary,
    Turn,
    TurnKind,
    Verdict,
    VerdictKind,
    Waiting,
)
from hpo_ops.client.segment import (
    GatewayRefusedError,
    GatewayUnreachableError,
    SegmentGateway,
)

__all__ = [
    "Best",
    "Ending",
    "GatewayClient",
    "GatewayRefusedError",
    "GatewayUnreachableError",
    "Group",
    "Progress",
    "ReportPage",
    "Score",
    "SegmentClient",
    "SegmentGateway",
    "SegmentSummary",
    "StudyHandle",
    "StudyRequest",
    "TrialSummary",
    "Turn",
    "TurnKind",
    "Verdict",
    "VerdictKind",
    "Waiting",
]
