"""Pure functions that summarise one trial's row, or aggregate the folds of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from hpo_ops.client import FoldSummary, Served, TrialSummary
from hpo_ops.core import TrialState
from hpo_ops.core.fold_aggregation import Averaged, Curve, state_of, summarise
from hpo_ops.ledger import StudyRecord
from hpo_ops.ledger.rows import ServedFrom
from hpo_ops.ledger.trial_listing import ListedTrial


def summarise_trial(trial: ListedTrial) -> TrialSummary:
    """Converts a ledger row (trial, fold or retraining) into a message for CLI and UI."""
    return TrialSummary(
        trial=trial.number,
        state=trial.state,
        reason=trial.reason,
        step=trial.step,
        value=trial.value,
        best_step=trial.best_step,
        params=trial.params,
        segments=trial.segments,
        seconds=trial.seconds,
        metrics=trial.metrics,
        is_feasible=trial.is_feasible,
        served=served_message(trial.served),
    )


def served_message(source: ServedFrom | None) -> Served | None:
    """Converts the source trial of a trial that the score cache served into a client message.

    Returns None if `source` is None: the score cache has not served the trial.
    """
    if source is None:
        return None
    return Served(study=source.study, trial=source.trial, step=source.step)


def aggregate_folds(
    record: StudyRecord,
    number: int,
    folds: Sequence[TrialSummary],
    curves: Mapping[int, Curve],
) -> TrialSummary:
    """Aggregates the summaries of a trial's folds into one summary of the trial.

    The value is the best mean of the completed folds' values at a step that all completed folds
    have reported. Folds that have not completed contribute to the steps, segments, seconds and
    feasibility only.

    Args:
        record: The study.
        number: Number of the aggregated trial, which has no row of its own in the ledger.
        folds: Summaries of the folds that were added, in the order of the folds.
        curves: Learning curves of the folds, by the fold's number in the ledger's table of trials.
    """
    completed = [fold for fold in folds if fold.state is TrialState.COMPLETED]
    averaged = summarise(
        [curves.get(fold.trial, {}) for fold in completed], record.config.objective.direction
    )
    state = aggregate_state(record, folds)
    seconds = [fold.seconds for fold in folds if fold.seconds is not None]
    return TrialSummary(
        trial=number,
        state=state,
        reason=_aggregate_reason(folds, state, averaged, fold_count=record.config.fold_count),
        step=max(fold.step for fold in folds),
        value=None if averaged is None else averaged.mean,
        best_step=None if averaged is None else averaged.step,
        params=next((fold.params for fold in folds if fold.params), {}),
        segments=sum(fold.segments for fold in folds),
        seconds=sum(seconds) if seconds else None,
        metrics=mean_metrics(completed),
        is_feasible=all(fold.is_feasible for fold in folds),
        deviation=None if averaged is None else averaged.deviation,
        folds=[_summarise_fold(index, fold, averaged, curves) for index, fold in enumerate(folds)],
    )


def aggregate_state(record: StudyRecord, folds: Sequence[TrialSummary]) -> TrialState:
    """Derives the state of a trial from the states of its folds.

    If the study is over, no more folds start: a trial that lacks folds is then PRUNED once its
    other folds have finished.
    """
    state = state_of([fold.state for fold in folds], record.config.fold_count)
    has_ended = all(fold.state.is_finished for fold in folds)
    if record.is_over and has_ended and not state.is_finished:
        return TrialState.PRUNED
    return state


def mean_metrics(folds: Sequence[TrialSummary]) -> dict[str, float]:
    """Averages the last reported metrics over folds; only metrics that all folds reported."""
    if not folds:
        return {}
    shared = [name for name in folds[0].metrics if all(name in fold.metrics for fold in folds)]
    return {name: fmean(fold.metrics[name] for fold in folds) for name in shared}


def _summarise_fold(
    index: int, fold: TrialSummary, averaged: Averaged | None, curves: Mapping[int, Curve]
) -> FoldSummary:
    value = fold.value
    if averaged is not None and fold.state is TrialState.COMPLETED:
        value = curves[fold.trial][averaged.step]
    return FoldSummary(
        fold=index,
        number=fold.trial,
        state=fold.state,
        reason=fold.reason,
        step=fold.step,
        value=value,
    )


def _aggregate_reason(
    folds: Sequence[TrialSummary],
    state: TrialState,
    averaged: Averaged | None,
    *,
    fold_count: int,
) -> str:
    if state is TrialState.COMPLETED:
        if averaged is None:
            return f"all {fold_count} folds completed, but have reported no step in common"
        return f"all {fold_count} folds completed; their mean is best at step {averaged.step}"
    for index, fold in enumerate(folds):
        if fold.state is TrialState.FAILED:
            return f"fold {index + 1} of {fold_count} failed: {fold.reason}"
    for fold in folds:
        if fold.state is TrialState.PRUNED:
            return fold.reason
    completed = sum(fold.state is TrialState.COMPLETED for fold in folds)
    return f"{completed} of {fold_count} folds completed"
