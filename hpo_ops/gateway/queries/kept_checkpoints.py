"""Queries for the checkpoints of a study that must not be deleted."""

from __future__ import annotations

from hpo_ops.gateway.queries._folded_study import read_folded_study
from hpo_ops.ledger import Ledger, LedgerConnection, StudyRecord
from hpo_ops.ledger.checkpoint_ranking import RankedCheckpoint, SavedCheckpoint, rank_checkpoints


def list_kept(ledger: Ledger, record: StudyRecord) -> list[tuple[int, int]]:
    """Lists the checkpoints of a study that must not be deleted (see `read_kept`).

    Returns:
        Pairs of trial number and step, sorted.
    """
    with ledger.connect() as connection:
        return read_kept(connection, record)


def read_kept(connection: LedgerConnection, record: StudyRecord) -> list[tuple[int, int]]:
    """Lists the checkpoints of a study that must not be deleted.

    These are the best checkpoint of each of the best trials (as many as ``checkpoints.keep`` in
    the study file), and the newest checkpoint of each unfinished trial, which may be resumed.
    In a study with folds, the last checkpoint of a completed retraining (the training of the best
    hyperparameters on all data) is kept too.

    Returns:
        Pairs of trial number and step, sorted. The trial number is the number in the checkpoint's
        path in the object store.
    """
    if record.config.folds is not None:
        kept = read_folded_study(connection, record).kept_checkpoints()
        return sorted({(_trial_in_store(record, saved), saved.step) for saved in kept})
    best: dict[int, int] = {}
    newest: dict[int, int] = {}
    for saved in rank_checkpoints(connection, record.id, record.config.objective.direction):
        trial = _trial_in_store(record, saved)
        if len(best) < record.config.checkpoints.keep:
            best.setdefault(trial, saved.step)
        if not saved.trial_state.is_finished:
            newest[trial] = max(newest.get(trial, 0), saved.step)
    return sorted({*best.items(), *newest.items()})


def _trial_in_store(record: StudyRecord, saved: RankedCheckpoint | SavedCheckpoint) -> int:
    """Returns the trial number in the path under which the store has a checkpoint.

    Checkpoints that a trial got from the score cache are files of the source trial. If the source
    trial belongs to this study, the number of the source trial is returned.
    """
    folder, _, trial = saved.uri.removesuffix(f"/{saved.step}").rpartition("/trials/")
    is_own = folder.endswith(f"/{record.key}") and trial.isdecimal()
    return int(trial) if is_own else saved.trial
