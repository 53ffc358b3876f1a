"""Checkpoints recorded in the ledger: their URIs, and the checkpoints a trial can resume from."""

from __future__ import annotations

from hpo_ops.checkpoints.manifest import check_path
from hpo_ops.ledger import StudyRecord, StudyTransaction
from hpo_ops.ledger.rows import TrialRow
from hpo_ops.protocol import SavedCheckpoint

MOST_SAVED = 20
"""The largest number of checkpoints in an assignment.

The older checkpoints serve as fallbacks if the newest checkpoint is damaged."""


def store_prefix(record: StudyRecord) -> str:
    """Returns the URI of a study's store with a final slash, as a prefix of objects' URIs."""
    return f"{(record.config.checkpoints.store or '').rstrip('/')}/"


def checkpoint_uri(record: StudyRecord, trial: int, step: int) -> str:
    """Returns the URI in the study's store of a trial's checkpoint at a step."""
    return f"{store_prefix(record)}{record.key}/trials/{trial}/{step}"


def restorable(session: StudyTransaction, row: TrialRow, from_step: int) -> list[SavedCheckpoint]:
    """Returns the checkpoints from which a trial can resume, newest first, with their digests.

    For a trial that the score cache served, these include checkpoints of the identical trial. A
    copy (in population-based training) without a checkpoint resumes from those of its parent.

    Args:
        session: The study's open transaction.
        row: The trial.
        from_step: The largest step of a returned checkpoint; 0 returns no checkpoints.
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
    """Returns whether a path stays inside the store; older agents could record any path."""
    try:
        check_path(path)
    except ValueError:
        return False
    return True
