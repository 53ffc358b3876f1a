"""Queries for the trials of a study, and for the learning curve and decisions of one trial."""

from __future__ import annotations

from hpo_ops.client import TrialSummary
from hpo_ops.core import TrialState
from hpo_ops.core.fold_aggregation import average
from hpo_ops.gateway.queries._folded_study import fold_numbers, read_folded_study
from hpo_ops.gateway.queries._trial_summaries import summarise_trial
from hpo_ops.ledger import Ledger, StudyRecord, trial_listing
from hpo_ops.ledger.learning_curves import RecordedReport, list_reports, read_curves
from hpo_ops.ledger.trial_listing import RecordedDecision


def list_trials(ledger: Ledger, record: StudyRecord) -> list[TrialSummary]:
    """Lists the trials of a study by number; in a study with folds, the aggregated trials."""
    with ledger.connect() as connection:
        if record.config.folds is not None:
            return read_folded_study(connection, record).trials
        return [summarise_trial(row) for row in trial_listing.list_trials(connection, record.id)]


def read_learning_curve(ledger: Ledger, record: StudyRecord, trial: int) -> list[RecordedReport]:
    """Lists the reports of a trial by step.

    In a study with folds, each listed report has the mean of the objective over the trial's
    completed folds.
    """
    with ledger.connect() as connection:
        if record.config.folds is None:
            return list_reports(connection, record.id, trial)
        numbers = fold_numbers(record, trial)
        folds = trial_listing.list_trials(connection, record.id, numbers=numbers)
        curves = read_curves(connection, record.id, numbers=numbers)
    completed = [
        fold.number
        for fold in folds
        if fold.state is TrialState.COMPLETED and fold.number != record.retraining
    ]
    means = average([curves.get(number, {}) for number in completed])
    metric = record.config.objective.name
    return [
        RecordedReport(step=step, metrics={metric: mean}, seconds=0.0)
        for step, mean in means.items()
    ]


def list_decisions(ledger: Ledger, record: StudyRecord, trial: int) -> list[RecordedDecision]:
    """Lists the policies' decisions about a trial and its folds, oldest decision first."""
    with ledger.connect() as connection:
        return trial_listing.list_decisions(
            connection, record.id, numbers=fold_numbers(record, trial)
        )
