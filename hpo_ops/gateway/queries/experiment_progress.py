"""The progress of an experiment: repeats of one study with different seeds, and their results."""

from __future__ import annotations

from hpo_ops.client.experiment_messages import Experiment, Repeat
from hpo_ops.core import TrialState
from hpo_ops.core.experiment_statistics import best_so_far
from hpo_ops.gateway.queries.best_trial import find_best
from hpo_ops.gateway.queries.trial_lists import list_trials
from hpo_ops.ledger import Ledger, StudyRecord
from hpo_ops.ledger.trial_listing import list_final_values


def read_experiment(ledger: Ledger, record: StudyRecord) -> Experiment:
    """Reads a study's experiment; a study that is not repeated is an experiment of one repeat."""
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
    """Lists the values of finished trials, with None for trials that cannot be the best trial.

    Without folds, the values are sorted by end time, and None stands for an infeasible trial. With
    folds, they are sorted by trial number, and None also stands for a trial that is not completed.
    """
    if record.config.folds is None:
        with ledger.connect() as connection:
            return list_final_values(connection, record.id)
    finished = [trial for trial in list_trials(ledger, record) if trial.state.is_finished]
    return [
        trial.value if trial.is_feasible and trial.state is TrialState.COMPLETED else None
        for trial in finished
    ]
