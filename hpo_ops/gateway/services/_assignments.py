"""The assignment of a segment: what its agent and its training need to know."""

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
    """The assignment of an open segment. The same segment always has the same one.

    Args:
        session: The study.
        row: The segment's trial, which has parameters.
        segment_id: The segment.
        from_step: The step of the checkpoint that it starts from; 0 without one.
        units: Units that it has.
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
