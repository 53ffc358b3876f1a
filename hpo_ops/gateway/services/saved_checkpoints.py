"""The checkpoints that the ledger knows: where they are, and which a segment may go on from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from hpo_ops.checkpoints.manifest import check_path
from hpo_ops.ledger import StudyRecord, StudySession
from hpo_ops.ledger.schema import checkpoints
from hpo_ops.protocol import SavedCheckpoint

if TYPE_CHECKING:
    from sqlalchemy import Row

MOST_SAVED = 20
"""How many checkpoints a segment is told of: the newest, and older ones should they be broken."""


def store_prefix(record: StudyRecord) -> str:
    """What the address of everything in a study's store begins with."""
    return f"{(record.config.checkpoints.store or '').rstrip('/')}/"


def checkpoint_uri(record: StudyRecord, trial: int, step: int) -> str:
    """The address of a trial's checkpoint, under the study's own key in the study's own store."""
    return f"{store_prefix(record)}{record.key}/trials/{trial}/{step}"


def restorable(session: StudySession, row: Row[Any], from_step: int) -> list[SavedCheckpoint]:
    """The checkpoints that a trial may go on from, newest first, with their digests.

    A trial that was served from another one has the other's among its own; a copy that has none
    yet has those of its parent.
    """
    if from_step == 0:
        return []
    own = _saved(session, row.number, from_step)
    return own if own or row.parent is None else _saved(session, row.parent, from_step)


def _saved(session: StudySession, trial: int, at_most: int) -> list[SavedCheckpoint]:
    table, prefix = checkpoints, store_prefix(session.record)
    found = session.connection.execute(
        select(table.c.step, table.c.uri, table.c.digest)
        .where(
            table.c.study_id == session.record.id,
            table.c.trial == trial,
            table.c.step <= at_most,
            table.c.uri.startswith(prefix, autoescape=True),
        )
        .order_by(table.c.step.desc())
        .limit(MOST_SAVED)
    )
    return [
        SavedCheckpoint(step=row.step, path=row.uri.removeprefix(prefix), digest=row.digest)
        for row in found
        if _is_path(row.uri.removeprefix(prefix))
    ]


def _is_path(path: str) -> bool:
    """Whether a path stays in the store; agents of older versions could say otherwise."""
    try:
        check_path(path)
    except ValueError:
        return False
    return True
