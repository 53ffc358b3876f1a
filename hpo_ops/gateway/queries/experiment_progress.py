"""The progress of an experiment: the repeats of a study with their best values over time."""

from __future__ import annotations

from hpo_ops.client.experiment_messages import Experiment, Repeat
from hpo_ops.core import TrialState
from hpo_ops.core.experiment_statistics import best_so_far
from hpo_ops.gateway.queries.best_trial import find_best
from hpo_ops.gateway.queries.trial_lists import list_trials
from hpo_ops.ledger import Ledger, StudyRecord
from hpo_ops.ledger.trial_listing import list_final_values


def read_experiment(ledger: Ledger, record: StudyRecord) -> Experiment:
    """Reads the experiment that a study belongs to; a study without repeats is its only one."""
    metric = record.config.objective
    return Experiment(
        study=record.name,
        dag_id=record.dag_id,
        run_id=record.experiment or record.run_id,
        metric=metric.name,
        direction=metric.direction.value,
        wanted=record.config.repeats if record.experiment else 1,
        repeats=[_read_repeat(ledger, repeat) for repeat in ledger.repeats(record)],
    )


def _read_repeat(ledger: Ledger, record: StudyRecord) -> Repeat:
    best = find_best(ledger, record)
    values = _read_final_values(ledger, record)
    return Repeat(
        number=record.repeat,
        study_id=record.id,
        run_id=record.run_id,
        seed=record.config.seed,
        state=record.state,
        best=best.value if best else None,
        curve=list(best_so_far(values, record.config.objective.direction)),
    )


def _read_final_values(ledger: Ledger, record: StudyRecord) -> list[float | None]:
    """Values of finished trials: in the order of their ends, with folds in that of their numbers.

    None stands for a trial that cannot be the best one: it is infeasible or was not completed.
    """
    if record.config.folds is None:
        with ledger.connect() as connection:
            return list_final_values(connection, record.id)
    finished = [trial for trial in list_trials(ledger, record) if trial.state.is_finished]
    return [
        trial.value if trial.is_feasible and trial.state is TrialState.COMPLETED else None
        for trial in finished
    ]
