"""Assignments: what the agent and the training of a segment need to know to execute it.

A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

from hpo_ops.config.forecast_settings import forecast_order
from hpo_ops.config.runner_registry import find_runner
from hpo_ops.gateway.services import _pbt_copies, _score_cache
from hpo_ops.gateway.services._saved_checkpoints import restorable
from hpo_ops.ledger import StudyTransaction
from hpo_ops.ledger.rows import TrialRow
from hpo_ops.protocol import Assignment


def make_assignment(
    session: StudyTransaction, row: TrialRow, *, segment_id: str, from_step: int, units: float
) -> Assignment:
    """Returns the assignment of an open segment; repeated calls return the same assignment.

    Args:
        session: The study's open transaction.
        row: The segment's trial, whose parameters must have been proposed already.
        segment_id: The id of the segment.
        from_step: The step of the checkpoint from which the segment starts; 0 for no checkpoint.
        units: The segment's number of resource units, or a fraction of a shared unit.
    """
    config = session.record.config
    is_fold = config.folds is not None and row.number != session.record.retraining
    return Assignment(
        study=session.record.key,
        trial=row.number,
        segment=segment_id,
        params=dict(row.params or {}),
        metrics=[metric.name for metric in config.objectives],
        from_step=from_step,
        until_step=row.until_step,
        seed=row.seed,
        checkpoint_every=config.checkpoints.every,
        grace_seconds=config.grace,
        resources=find_runner(config.runner).granted(config, units),
        fold=row.number % config.fold_count if is_fold else None,
        folds=None if config.folds is None else config.fold_count,
        forecasts=forecast_order(config, seed=row.seed),
        checkpoint_store=config.checkpoints.store,
        deterministic=config.deterministic,
        restore_from=(
            _score_cache.restore_from(session, row.number, from_step)
            or _pbt_copies.restore_from(session, row, from_step)
        ),
        saved=restorable(session, row, from_step),
    )
