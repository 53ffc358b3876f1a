"""Copies of trials (population-based training): their parameters, and where they start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from hpo_ops.core import Member
from hpo_ops.core.search_space import clip_params
from hpo_ops.ledger import StudySession
from hpo_ops.ledger.schema import checkpoints

if TYPE_CHECKING:
    from sqlalchemy import Row


def add_trial(session: StudySession, member: Member) -> int:
    """Reserves a new trial; a copy of another one with parameters that the space allows."""
    space = session.record.config.space
    wanted = None if member.params is None else clip_params(space, member.params)
    return session.add_trial(parent=member.parent, wanted=wanted)


def restore_from(session: StudySession, row: Row[Any], step: int) -> str | None:
    """Where in the store the checkpoint of a copy's parent is, until the copy has its own."""
    if row.parent is None or step == 0:
        return None
    own = session.connection.execute(
        select(checkpoints.c.step)
        .where(
            checkpoints.c.study_id == session.record.id,
            checkpoints.c.trial == row.number,
        )
        .limit(1)
    ).first()
    return None if own else f"{session.record.key}/trials/{row.parent}"
