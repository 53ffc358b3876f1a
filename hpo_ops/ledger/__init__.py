"""The ledger: the database that records everything that happens in studies.

Only this package executes SQL on the ledger. `Ledger.study` opens a transaction that changes one
study; the other modules run read-only queries and manage the leases of pools (resource units, such
as GPUs, that studies share).
"""

from hpo_ops.ledger._policy_view import EventKind
from hpo_ops.ledger._study_record import StudyRecord, StudyState
from hpo_ops.ledger._study_transaction import StudyTransaction
from hpo_ops.ledger.ledger import Ledger, LedgerConnection, UnknownStudyError
from hpo_ops.ledger.study_identity import StudyIdentity

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
