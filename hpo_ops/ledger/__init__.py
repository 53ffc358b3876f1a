"""The ledger: SQL that knows everything that happened, and gives it out by leases and views."""

from hpo_ops.ledger.ledger import Ledger, UnknownStudyError
from hpo_ops.ledger.record import StudyRecord, StudyState, study_key
from hpo_ops.ledger.session import StudySession
from hpo_ops.ledger.view import EventKind

__all__ = [
    "EventKind",
    "Ledger",
    "StudyRecord",
    "StudySession",
    "StudyState",
    "UnknownStudyError",
    "study_key",
]
