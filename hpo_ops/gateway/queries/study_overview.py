"""The progress of a study: state, number of trials by state, best trial and duration."""

from __future__ import annotations

from collections import Counter

from hpo_ops.client import Progress
from hpo_ops.core import TrialState
from hpo_ops.gateway.queries._folded_study import read_folded_study
from hpo_ops.gateway.queries.best_trial import read_best
from hpo_ops.ledger import Ledger, StudyRecord
from hpo_ops.ledger.study_recording import study_seconds
from hpo_ops.ledger.trial_listing import count_served_trials, count_trials_by_state


def read_progress(ledger: Ledger, record: StudyRecord) -> Progress:
    """Reads the progress of a study; the folds of a trial are counted as one trial."""
    config = record.config
    with ledger.connect() as connection:
        rows_by_state = count_trials_by_state(connection, record.id)
        served = count_served_trials(connection, record.id, fold_count=config.fold_count)
        seconds = study_seconds(connection, record.id)
        if config.folds is None:
            counts = Counter(rows_by_state)
            best = read_best(connection, record)
        else:
            folded = read_folded_study(connection, record)
            counts = Counter(trial.state for trial in folded.trials)
            best = folded.best
    return Progress(
        id=record.id,
        name=record.name,
        run_id=record.run_id,
        key=record.key,
        dag_id=record.dag_id,
        owner=record.owner,
        state=record.state,
        reason=record.reason,
        metric=config.objective.name,
        direction=config.objective.direction.value,
        trials=config.trials,
        mapped_trials=config.mapped_trials,
        counts={state.value: counts[state] for state in TrialState},
        seconds=seconds,
        runner=config.runner,
        store=config.checkpoints.store or "",
        best=best,
        served=served,
        folds=None if config.folds is None else config.folds.count,
        begun=sum(rows_by_state.values()),
        retraining=record.retraining,
    )
