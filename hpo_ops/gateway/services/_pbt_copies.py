"""Copies of trials in population-based training: their parameters and first checkpoint."""

from __future__ import annotations

from hpo_ops.core import Member
from hpo_ops.core.search_space import clip_params
from hpo_ops.ledger import StudyTransaction
from hpo_ops.ledger.rows import TrialRow


def add_trial(session: StudyTransaction, member: Member) -> int:
    """Reserves a new trial. The parameters of a copy are clipped to the search space."""
    space = session.record.config.space
    params = None if member.params is None else clip_params(space, member.params)
    return session.add_trial(parent=member.parent, requested_params=params)


def restore_from(session: StudyTransaction, row: TrialRow, step: int) -> str | None:
    """The folder in the store of the parent's checkpoints, until a copy has its own."""
    if row.parent is None or step == 0:
        return None
    if session.checkpoints.has_any(row.number):
        return None
    return f"{session.record.key}/trials/{row.parent}"
