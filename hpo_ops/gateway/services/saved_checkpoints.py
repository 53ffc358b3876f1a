"""The checkpoints that the ledger knows: where they are, and which a segment may go on from."""

from __future__ import annotations

from hpo_ops.checkpoints.manifest import check_path
from hpo_ops.ledger import StudyRecord, StudyTransaction
from hpo_ops.ledger.rows import TrialRow
from hpo_ops.protocol import SavedCheckpoint

MOST_SAVED = 20
"""How many checkpoints a segment is told of: the newest, and older ones should they be broken."""


def store_prefix(record: StudyRecord) -> str:
    """What the address of everything in a study's store begins with."""
    return f"{(record.config.checkpoints.store or '').rstrip('/')}/"


def checkpoint_uri(record: StudyRecord, trial: int, step: int) -> str:
    """The address of a trial's checkpoint, under the study's own key in the study's own store."""
    return f"{store_prefix(record)}{record.key}/trials/{trial}/{step}"


def restorable(session: StudyTransaction, row: TrialRow, from_step: int) -> list[SavedCheckpoint]:
    """The checkpoints that a trial may go on from, newest first, with their digests.

    A trial that was served from another one has the other's among its own; a copy that has none
    yet has those of its parent.
    """
    if from_step == 0:
        return []
    own = _saved(session, row.number, from_step)
    return own if own or row.parent is None else _saved(session, row.parent, from_step)


def _saved(session: StudyTransaction, trial: int, at_most: int) -> list[SavedCheckpoint]:
    prefix = store_prefix(session.record)
    found = session.checkpoints.newest(trial, at_most=at_most, uri_prefix=prefix, limit=MOST_SAVED)
    return [
        SavedCheckpoint(step=saved.step, path=path, digest=saved.digest)
        for saved in found
        if _is_path(path := saved.uri.removeprefix(prefix))
    ]


def _is_path(path: str) -> bool:
    """Whether a path stays in the store; agents of older versions could say otherwise."""
    try:
        check_path(path)
    except ValueError:
        return False
    return True
