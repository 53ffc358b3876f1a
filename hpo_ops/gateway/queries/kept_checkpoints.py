"""The checkpoints of a study that must not be deleted."""

from __future__ import annotations

from hpo_ops.gateway.queries._folded_study import read_folded_study
from hpo_ops.ledger import Ledger, LedgerConnection, StudyRecord
from hpo_ops.ledger.checkpoint_ranking import RankedCheckpoint, SavedCheckpoint, rank_checkpoints


def list_kept(ledger: Ledger, record: StudyRecord) -> list[tuple[int, int]]:
    """Lists the checkpoints to keep, as pairs of trial and step."""
    with ledger.connect() as connection:
        return read_kept(connection, record)


def read_kept(connection: LedgerConnection, record: StudyRecord) -> list[tuple[int, int]]:
    """Lists the checkpoints to keep, as the transaction of a connection sees them.

    These are the best checkpoint of each of the best trials, and the newest checkpoint of each
    unfinished trial, from which it can be resumed.
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
    """The trial under whose number the store has a checkpoint.

    A trial that the score cache served points to checkpoints of the trial that was trained, which
    may be one of the same study.
    """
    folder, _, trial = saved.uri.removesuffix(f"/{saved.step}").rpartition("/trials/")
    is_own = folder.endswith(f"/{record.key}") and trial.isdecimal()
    return int(trial) if is_own else saved.trial
