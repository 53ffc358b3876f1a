"""The ledger: SQL that knows everything that happened, and gives it out by leases and views."""

from hpo_ops.ledger.ledger import Ledger, LedgerConnection, UnknownStudyError
from hpo_ops.ledger.policy_view import EventKind
from hpo_ops.ledger.study_identity import StudyIdentity
from hpo_ops.ledger.study_record import StudyRecord, StudyState
from hpo_ops.ledger.study_transaction import StudyTransaction

__all__ = [
    "EventKind",
    "Ledger",
    "LedgerConnection",
    "StudyIdentity",
    "StudyRecord",
    "StudyState",
    "StudyTransaction",
    "UnknownStudyError",
]
