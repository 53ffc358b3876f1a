"""Experiments as people see them: the repeats of a study. Reads only, takes no lock."""

from __future__ import annotations

from sqlalchemy import select

from hpo_ops.client.experiment_messages import Experiment, Repeat
from hpo_ops.core import TrialState
from hpo_ops.core.experiment_statistics import best_so_far
from hpo_ops.gateway.queries import study_queries
from hpo_ops.ledger import Ledger, StudyRecord
from hpo_ops.ledger.schema import trials


def experiment_of(ledger: Ledger, record: StudyRecord) -> Experiment:
    """The experiment that a study is a repeat of; a study without repeats is one of one."""
    records = ledger.repeats(record)
    metric = record.config.objective
    return Experiment(
        study=record.name,
        dag_id=record.dag_id,
        run_id=record.experiment or record.run_id,
        metric=metric.name,
        direction=metric.direction.value,
        wanted=record.config.repeats if record.experiment else 1,
        repeats=[_repeat(ledger, item) for item in records],
    )


def _repeat(ledger: Ledger, record: StudyRecord) -> Repeat:
    values = _values(ledger, record)
    best = study_queries.best(ledger, record)
    return Repeat(
        number=record.repeat,
        study_id=record.id,
        run_id=record.run_id,
        seed=record.config.seed,
        state=record.state,
        best=best.value if best else None,
        curve=list(best_so_far(values, record.config.objective.direction)),
    )


def _values(ledger: Ledger, record: StudyRecord) -> list[float | None]:
    """The values of the trials that have ended, in that order; None where one does not count."""
    if record.config.folds is not None:
        ended = [
            item
            for item in study_queries.trial_summaries(ledger, record)
            if item.state.is_finished
        ]
        return [
            item.value if item.is_feasible and item.state is TrialState.COMPLETED else None
            for item in ended
        ]
    query = (
        select(trials.c.value, study_queries.is_feasible().label("is_feasible"))
        .where(trials.c.study_id == record.id, trials.c.ended_at.is_not(None))
        .order_by(trials.c.ended_at, trials.c.number)
    )
    with ledger.engine.connect() as connection:
        rows = connection.execute(query).all()
    return [row.value if row.is_feasible else None for row in rows]
