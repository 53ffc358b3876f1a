"""The ledger: the database that records everything that happens in studies.

Only this package speaks SQL. `Ledger.study` opens a transaction on one study for commands; the
other modules answer queries and hand out leases of pools.
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
