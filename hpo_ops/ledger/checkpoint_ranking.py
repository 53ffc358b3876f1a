"""Queries for checkpoints, also ranked by the objective's value at the checkpoint's step."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, select

from hpo_ops.core import Direction, TrialState
from hpo_ops.ledger._schema import checkpoints, reports, trials


@dataclass(frozen=True, kw_only=True)
class SavedCheckpoint:
    """A complete checkpoint in the store.

    Attributes:
        trial: Number of the trial; in a study with folds, number of the fold.
        digest: Digest of the checkpoint's manifest; None if the agent did not send a digest.
    """

    trial: int
    step: int
    uri: str
    digest: str | None


@dataclass(frozen=True, kw_only=True)
class RankedCheckpoint:
    """A checkpoint with the objective's value at its step.

    Attributes:
        trial_state: State of the checkpoint's trial.
    """

    trial: int
    step: int
    uri: str
    digest: str | None
    value: float
    trial_state: TrialState


def list_checkpoints(connection: Connection, study_id: int) -> list[SavedCheckpoint]:
    """Lists all checkpoints of a study, sorted by trial and step."""
    rows = connection.execute(
        select(checkpoints.c.trial, checkpoints.c.step, checkpoints.c.uri, checkpoints.c.digest)
        .where(checkpoints.c.study_id == study_id)
        .order_by(checkpoints.c.trial, checkpoints.c.step)
    )
    return [SavedCheckpoint(**row._mapping) for row in rows]


def rank_checkpoints(
    connection: Connection, study_id: int, direction: Direction
) -> list[RankedCheckpoint]:
    """Lists the checkpoints of a study at whose steps the trial reported, best value first."""
    return _ranked(connection, direction, checkpoints.c.study_id == study_id, limit=None)


def find_best_checkpoint(
    connection: Connection, study_id: int, trial: int, direction: Direction
) -> RankedCheckpoint | None:
    """Returns the checkpoint of a trial at whose step the objective's value is best.

    Of checkpoints with equal values, the earliest is returned. Checkpoints of steps without a
    report are ignored; None is returned if no other checkpoint is left.
    """
    is_of_trial = and_(checkpoints.c.study_id == study_id, checkpoints.c.trial == trial)
    return next(iter(_ranked(connection, direction, is_of_trial, limit=1)), None)


def _ranked(
    connection: Connection,
    direction: Direction,
    is_wanted: ColumnElement[bool],
    *,
    limit: int | None,
) -> list[RankedCheckpoint]:
    value = reports.c.value
    best_first = value.desc() if direction is Direction.MAXIMIZE else value.asc()
    rows = connection.execute(
        select(
            checkpoints.c.trial,
            checkpoints.c.step,
            checkpoints.c.uri,
            checkpoints.c.digest,
            value,
            trials.c.state,
        )
        .join(
            reports,
            and_(
                reports.c.study_id == checkpoints.c.study_id,
                reports.c.trial == checkpoints.c.trial,
                reports.c.step == checkpoints.c.step,
            ),
        )
        .join(
            trials,
            and_(
                trials.c.study_id == checkpoints.c.study_id,
                trials.c.number == checkpoints.c.trial,
            ),
        )
        .where(is_wanted)
        .order_by(best_first, checkpoints.c.trial, checkpoints.c.step)
        .limit(limit)
    )
    return [
        RankedCheckpoint(
            trial=row.trial,
            step=row.step,
            uri=row.uri,
            digest=row.digest,
            value=row.value,
            trial_state=TrialState(row.state),
        )
        for row in rows
    ]
