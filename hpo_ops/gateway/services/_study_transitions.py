"""State transitions of a study, its trials and segments, inside the caller's transaction.

A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from hpo_ops.core import Action, Decision, TrialState
from hpo_ops.core.fold_aggregation import by_trial
from hpo_ops.core.stopping_rules import StoppingRule, passed_deadline, reached_target
from hpo_ops.core.trial_transition import SegmentHistory, trial_after
from hpo_ops.gateway.services import _fold_pruning
from hpo_ops.gateway.services._live_slots import why_nothing_runs
from hpo_ops.ledger import StudyState, StudyTransaction
from hpo_ops.ledger.rows import SegmentRow, TrialRow
from hpo_ops.protocol import Cause, Outcome, Report, SegmentResult

logger = logging.getLogger(__name__)


def stop_if_due(session: StudyTransaction) -> None:
    """Stops the study if it reached its target or deadline, or a stopping rule applies.

    The rules limit the number of consecutive trials without a better value (`stop.patience`) and
    the share of failed trials (`stop.failures`).
    """
    if not session.record.is_searching:
        return
    config = session.record.config
    rule = StoppingRule(patience=config.stop.patience, failures=config.stop.failures)
    if reason := rule.reason_to_stop(by_trial(session.view), session.now):
        session.stop(reason)


def stop_if_nothing_is_left(session: StudyTransaction) -> None:
    """Stops the study if no trial is running and the scheduler would not start another trial."""
    if not session.record.is_searching or session.view.in_state(TrialState.RUNNING):
        return
    group = session.record.config.create_scheduler().next(session.view, 1, session.now)
    if not group.members:
        session.stop(group.reason)


def take_reports(
    session: StudyTransaction, number: int, segment_id: str, new: Sequence[Report]
) -> None:
    """Records new reports of a trial and updates the trial's best value.

    Raises:
        ValueError: A report lacks a metric of the study.
    """
    if not new:
        return
    names = [metric.name for metric in session.record.config.objectives]
    for report in new:
        report.check_metrics(names)
    session.reports.add(number, segment_id, new)
    trial = session.view.trials[number]
    if trial.best_score is not None:
        session.trials.record_progress(
            number,
            step=trial.step,
            best_step=trial.best_step,
            value=session.view.goal.direction.to_value(trial.best_score),
            metrics=new[-1].metrics,
        )


def decide(session: StudyTransaction, segment: SegmentRow, *, has_news: bool) -> Decision:
    """Decides whether a running trial continues, pauses or stops.

    An action other than continue, once requested, is repeated until the segment ends. If the
    study has reached its target or deadline, the study stops and with it the trial.

    Args:
        session: The study's open transaction.
        segment: The open segment of the trial.
        has_news: Whether the trial has new reports. If not, the scheduler is not called.
    """
    number = segment.trial
    view = session.view
    if session.record.is_searching and (
        reason := reached_target(by_trial(view)) or passed_deadline(view, session.now)
    ):
        session.stop(reason)
    if session.record.state is StudyState.PAUSED:
        return Decision(Action.PAUSE, why_nothing_runs(session))
    if session.record.is_over:
        return Decision(Action.STOP, why_nothing_runs(session))
    if segment.requested_action is not None:
        return Decision(segment.requested_action, segment.requested_reason)
    if not has_news:
        return Decision(Action.CONTINUE, "no new report")
    if session.record.config.reproducible:
        return Decision(Action.CONTINUE, "decisions are made between rounds")
    trial = view.trials[number]
    decision = session.record.config.create_scheduler().on_report(view, trial, session.now)
    session.trials.record_decision(number, trial.step, decision)
    if decision.action is not Action.CONTINUE:
        session.segments.request(segment.id, decision)
        name = view.name_of(number)
        logger.info("%s %s at step %d: %s", name, decision.action, trial.step, decision.reason)
    return decision


def judge_at_barrier(session: StudyTransaction, numbers: Sequence[int]) -> None:
    """Lets the scheduler decide on the paused trials of a round; prunes the trials that it stops.

    The barrier is the point at which all trials of the round have finished or are paused. The
    scheduler decides in the order of trial numbers.
    """
    scheduler = session.record.config.create_scheduler()
    for number in sorted(numbers):
        trial = session.view.trials[number]
        if trial.state is not TrialState.PAUSED:
            continue
        decision = scheduler.on_report(session.view, trial, session.now)
        session.trials.record_decision(number, trial.step, decision)
        if decision.action is Action.STOP:
            session.trials.move(number, TrialState.PRUNED, decision.reason)
    for number in sorted(numbers):
        _fold_pruning.judge(session, number)


def end_segment(session: StudyTransaction, segment: SegmentRow, result: SegmentResult) -> TrialRow:
    """Ends a segment and moves its trial to the state that follows from the segment's result.

    The study may stop as a consequence.

    Returns:
        The updated trial.
    """
    number = segment.trial
    config = session.record.config
    session.segments.end(segment.id, number, result)
    view = session.view
    trial, row = view.trials[number], session.trials.get(number)
    target = view.goal.target_score
    # A preemption after a new checkpoint has cost little, and does not count.
    earlier = row.preemptions if trial.checkpoint_step <= segment.from_step else 0
    transition = trial_after(
        replace(result, step=max(result.step, trial.step)),
        SegmentHistory(
            max_steps=(
                row.until_step if trial.is_retraining else config.create_scheduler().max_steps
            ),
            failures=row.failures,
            retries=config.retries,
            fruitless_preemptions=earlier,
            reached_target=(
                target is not None
                and config.folds is None  # a fold alone reaches nothing
                and trial.best_score is not None
                and trial.best_score >= target
            ),
            is_study_over=session.record.is_over,
            is_study_paused=session.record.state is StudyState.PAUSED,
            is_resized=segment.requested_action is Action.RESIZE,
        ),
    )
    session.trials.settle(
        number,
        transition.state,
        transition.reason,
        group=trial.group,
        failures=row.failures + (result.outcome is Outcome.FAILED),
        preemptions=earlier + (result.outcome is Outcome.PREEMPTED),
    )
    logger.info("%s %s: %s", view.name_of(number), transition.state, transition.reason)
    _check_constraints(session, number)
    if not config.reproducible:
        _fold_pruning.judge(session, number)
        stop_if_due(session)
    return session.trials.get(number)


def fail_without_task(session: StudyTransaction, number: int) -> bool:
    """Fails a trial if it is RUNNING although its task has ended and will not be retried.

    An open segment of the trial ends as preempted.

    Returns:
        Whether this call failed the trial; False if the trial was not RUNNING.
    """
    if segment := session.segments.find_open(number):
        lost = SegmentResult(
            outcome=Outcome.PREEMPTED, reason="its task has ended", cause=Cause.TASK_LOST
        )
        end_segment(session, segment, lost)
    if session.view.trials[number].state is not TrialState.RUNNING:
        return False
    session.trials.move(number, TrialState.FAILED, "its task has ended without a result")
    if not session.record.config.reproducible:
        _fold_pruning.judge(session, number)
    return True


def _check_constraints(session: StudyTransaction, number: int) -> None:
    """Records by how much a trial violates each of the study's constraints.

    Nothing is recorded before all metrics and parameters that the constraints use are known.
    """
    constraints = session.record.config.constraints
    if not constraints:
        return
    row = session.trials.get(number)
    values = {**(row.params or {}), **(row.metrics or {})}
    found = [item.violation(values) for item in constraints]
    violations = [violation for violation in found if violation is not None]
    if len(violations) == len(constraints):
        session.trials.record_violations(number, violations)


def refuse_if_impossible(session: StudyTransaction, number: int) -> None:
    """Prunes an unfinished trial if its parameters, without any metric, violate a constraint."""
    if session.view.trials[number].state.is_finished:
        return
    for constraint in session.record.config.constraints:
        violation = constraint.violation(session.trials.get(number).params or {})
        if violation is not None and violation > 0:
            session.trials.move(number, TrialState.PRUNED, f"violates {constraint.text}")
            session.trials.record_violations(number, [violation])
            _fold_pruning.judge(session, number)
            return
