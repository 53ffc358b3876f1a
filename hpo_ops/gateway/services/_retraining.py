"""Retraining: after the search of a study with folds, trains the best parameters on all data."""

from __future__ import annotations

from hpo_ops.client import Best, Retraining
from hpo_ops.gateway.services import _score_cache
from hpo_ops.ledger import StudyState, StudyTransaction


def begin(session: StudyTransaction, best: Best | None) -> Retraining:
    """Adds the trial that trains the best parameters on all data, unless it exists already.

    The added trial trains up to the best step of the best trial's mean learning curve.

    Args:
        session: The study, whose search is over.
        best: The best trial of the study; None if no trial has completed all of its folds.

    Returns:
        The number of the added or existing trial; or no number, and the reason why no trial was
        added.
    """
    record = session.record
    if record.retraining is not None:
        return Retraining(
            trial=record.retraining, reason="the retraining has been started already"
        )
    if not record.config.is_retrained:
        return Retraining(reason="the study has no folds.retrain")
    if record.state is StudyState.ENDED:
        return Retraining(reason=f"the study has ended: {record.reason}")
    if best is None:
        return Retraining(reason="no trial has completed all of its folds")
    reason = f"trial {best.trial} is trained on all data, up to its best step {best.step}"
    number = session.add_trial(is_retraining=True)
    session.begin_retraining(number)
    session.trials.propose(number, best.params, _score_cache.identity(record, best.params))
    session.trials.give_slot(number, reason, until_step=best.step)
    return Retraining(trial=number, reason=reason)
