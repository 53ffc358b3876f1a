"""The ledger: SQL that knows everything that happened, and gives it out by leases and views."""

from hpo_ops.ledger.identity import StudyIdentity
from hpo_ops.ledger.ledger import Ledger, UnknownStudyError
from hpo_ops.ledger.record import StudyRecord, StudyState
from hpo_ops.ledger.session import StudySession
from hpo_ops.ledger.view import EventKind

__all__ = [
    "EventKind",
    "Ledger",
    "StudyIdentity",
    "StudyRecord",
    "StudySession",
    "StudyState",
    "UnknownStudyError",
]
