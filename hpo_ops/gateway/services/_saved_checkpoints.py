"""Checkpoints in the ledger: their URIs, and those from which a segment may resume."""

from __future__ import annotations

from hpo_ops.checkpoints.manifest import check_path
from hpo_ops.ledger import StudyRecord, StudyTransaction
from hpo_ops.ledger.rows import TrialRow
from hpo_ops.protocol import SavedCheckpoint

MOST_SAVED = 20
"""Checkpoints in an assignment: the newest, and older ones in case that it is damaged."""


def store_prefix(record: StudyRecord) -> str:
    """The beginning of the URI of every object in a study's store."""
    return f"{(record.config.checkpoints.store or '').rstrip('/')}/"


def checkpoint_uri(record: StudyRecord, trial: int, step: int) -> str:
    """The URI of a trial's checkpoint, under the study's key in the study's store."""
    return f"{store_prefix(record)}{record.key}/trials/{trial}/{step}"


def restorable(session: StudyTransaction, row: TrialRow, from_step: int) -> list[SavedCheckpoint]:
    """The checkpoints from which a trial may resume, newest first, with their digests.

    A trial that the score cache served has checkpoints of its source among its own. A copy without
    a checkpoint has those of its parent.
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
    """Whether a path stays inside the store; older agents could record any path."""
    try:
        check_path(path)
    except ValueError:
        return False
    return True
