"""Queries for the best trial of a study with its checkpoint, and for the Pareto front."""

from __future__ import annotations

from hpo_ops.client import Best, TrialSummary
from hpo_ops.core import TrialState
from hpo_ops.core.pareto import pareto_front
from hpo_ops.gateway.queries._folded_study import read_folded_study
from hpo_ops.gateway.queries._trial_summaries import served_message
from hpo_ops.gateway.queries.trial_lists import list_trials
from hpo_ops.ledger import Ledger, LedgerConnection, StudyRecord
from hpo_ops.ledger.checkpoint_ranking import find_best_checkpoint
from hpo_ops.ledger.trial_listing import find_best_trial


def find_best(ledger: Ledger, record: StudyRecord) -> Best | None:
    """Returns the feasible trial with the best value, or None if no feasible trial has a value.

    In a study with folds, only trials whose folds have all completed are considered.
    """
    with ledger.connect() as connection:
        if record.config.folds is not None:
            return read_folded_study(connection, record).best
        return read_best(connection, record)


def read_best(connection: LedgerConnection, record: StudyRecord) -> Best | None:
    """Returns the feasible trial with the best value, in a study without folds.

    Returns None if no feasible trial has a value.
    """
    direction = record.config.objective.direction
    trial = find_best_trial(connection, record.id, direction)
    if trial is None:
        return None
    checkpoint = find_best_checkpoint(connection, record.id, trial.number, direction)
    published = (record.result or {}).get("best", {}).get("checkpoint_uri")
    return Best(
        trial=trial.number,
        value=trial.value,
        step=trial.best_step,
        params=dict(trial.params),
        checkpoint_uri=published or (checkpoint.uri if checkpoint else None),
        checkpoint_step=checkpoint.step if checkpoint else None,
        checkpoint_digest=checkpoint.digest if checkpoint else None,
        checkpoint_value=checkpoint.value if checkpoint else None,
        served=served_message(trial.served),
    )


def find_front(ledger: Ledger, record: StudyRecord) -> list[TrialSummary]:
    """Lists the Pareto front of the study's completed and feasible trials.

    A trial is in the front if no other of these trials dominates it.

    In a study with one metric, the front consists of the trials with the best value.
    """
    candidates = [
        trial
        for trial in list_trials(ledger, record)
        if trial.state is TrialState.COMPLETED and trial.is_feasible and trial.value is not None
    ]
    scores = {
        trial.trial: [
            metric.direction.to_score(trial.metrics[metric.name])
            for metric in record.config.objectives
        ]
        for trial in candidates
    }
    front = set(pareto_front(scores))
    return [trial for trial in candidates if trial.trial in front]
