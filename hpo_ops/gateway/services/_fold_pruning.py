"""Ends a cross-validated trial early if a fold fails or the trial is worse than the best trial."""

from __future__ import annotations

import logging

from hpo_ops.core import Action, Decision, TrialState
from hpo_ops.core.fold_aggregation import folds_of, reason_to_prune
from hpo_ops.ledger import StudyTransaction

logger = logging.getLogger(__name__)

_VERBS = {TrialState.FAILED: "failed", TrialState.PRUNED: "was pruned"}


def judge(session: StudyTransaction, number: int) -> None:
    """Ends the unfinished folds of a cross-validated trial if their training would be wasted.

    It would be wasted if another fold of the trial failed or was pruned, or if the trial is
    significantly worse than the best trial (`folds.prune` is the p-value). Folds without an open
    segment are pruned at once; running folds receive a request to stop.

    Args:
        session: The study's open transaction.
        number: The number of any fold of the trial; each fold has a trial number of its own.
    """
    config = session.record.config
    if config.folds is None or session.view.trials[number].is_retraining:
        return
    if session.record.is_over:
        return  # the end of the study ends its folds
    trial = number // config.fold_count
    if reason := _reason_to_end(session, trial):
        _end(session, trial, reason)


def _reason_to_end(session: StudyTransaction, trial: int) -> str | None:
    folds, config = folds_of(session.view, trial), session.record.config
    count = config.fold_count
    if len(folds) == count and all(fold.state.is_finished for fold in folds.values()):
        return None
    for fold, part in folds.items():
        if part.state in _VERBS:
            why = session.trials.get(part.number).reason
            return f"fold {fold + 1} of {count} {_VERBS[part.state]}: {why}"
    if config.folds is None or config.folds.prune is None:
        return None
    return reason_to_prune(session.view, trial, config.folds.prune)


def _end(session: StudyTransaction, trial: int, reason: str) -> None:
    """Requests the running folds of a trial to stop, and prunes its other unfinished folds.

    Folds that are not in the ledger yet are added to the ledger as pruned.
    """
    count = session.record.config.fold_count
    numbers = range(trial * count, (trial + 1) * count)
    rows = session.trials.select(numbers)
    params = next((row.params for row in rows.values() if row.params is not None), None)
    logger.info("trial %d ends before all of its folds: %s", trial, reason)
    for number in numbers:
        # Folds are added in order, so that a missing fold gets exactly this number.
        if number not in rows:
            session.add_trial()
            if params is not None:
                session.trials.propose(number, params)
        part = session.view.trials[number]
        if part.state.is_finished:
            continue
        segment = session.segments.find_open(number)
        if segment is None:
            session.trials.move(number, TrialState.PRUNED, reason)
        elif segment.requested_action is None:
            decision = Decision(Action.STOP, reason)
            session.trials.record_decision(number, part.step, decision)
            session.segments.request(segment.id, decision)
