"""Copies of trials in population-based training (PBT).

A copy starts from a checkpoint of its parent trial, with changed parameters.
"""

from __future__ import annotations

from hpo_ops.core import Member
from hpo_ops.core.search_space import clip_params
from hpo_ops.ledger import StudyTransaction
from hpo_ops.ledger.rows import TrialRow


def add_trial(session: StudyTransaction, member: Member) -> int:
    """Adds a new trial, which may be a copy of another trial, to the ledger; returns its number.

    The parameters of a copy are clipped to the search space.

    Args:
        session: The study's open transaction.
        member: The scheduler's request for a new trial, which has a parent and parameters
            if the new trial is a copy.
    """
    space = session.record.config.space
    params = None if member.params is None else clip_params(space, member.params)
    return session.add_trial(parent=member.parent, requested_params=params)


def restore_from(session: StudyTransaction, row: TrialRow, step: int) -> str | None:
    """Returns the folder of the parent's checkpoints if a trial has to start from one of them.

    Returns:
        The folder's path in the store; None if the trial is not a copy, has a checkpoint of its
        own, or starts from step 0.
    """
    if row.parent is None or step == 0:
        return None
    if session.checkpoints.has_any(row.number):
        return None
    return f"{session.record.key}/trials/{row.parent}"
