"""Next actions: tells the Airflow task of a trial what to do, and wakes up waiting tasks.

A task runs a segment (one uninterrupted execution of a trial), waits, or finishes. A segment needs
a slot (room for one running trial of the study) and a lease of resource units (such as GPUs).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from hpo_ops.client import NextAction, NextActionKind, TrialResult, Waiter, WakeUp
from hpo_ops.client.token_signing import KeyRing
from hpo_ops.config import Flow
from hpo_ops.config.round_planning import trials_per_round
from hpo_ops.config.runner_registry import find_runner
from hpo_ops.core import TrialState
from hpo_ops.gateway.services import _allocation, _live_slots, _score_cache, _study_transitions
from hpo_ops.gateway.services._assignments import make_assignment
from hpo_ops.gateway.services._trial_result_message import trial_result
from hpo_ops.gateway.services.proposals import Proposals
from hpo_ops.gateway.tokens import issue_segment_token
from hpo_ops.ledger import Ledger, StudyState, StudyTransaction
from hpo_ops.ledger.rows import Mishaps, TrialRow
from hpo_ops.protocol import Cause, Outcome, Provenance, SegmentResult


@dataclass(frozen=True)
class NextActionService:
    """Decides what the tasks of trials do next. All methods are idempotent."""

    ledger: Ledger
    proposals: Proposals
    keys: KeyRing

    def next_action(self, study_id: int, number: int, key: str) -> NextAction:
        """Returns what the task of a trial has to do now: run a segment, wait, or finish.

        Args:
            study_id: The study.
            number: The trial.
            key: Idempotency key of the task's attempt. The same key returns the same open segment
                again. Another key ends the open segment as preempted, since a new attempt implies
                that the worker of the previous attempt is gone.

        Raises:
            LookupError: The study runs in rounds and has no such trial.
        """
        with self.ledger.study(study_id) as session:
            answer = self._answer(session, number, key)
            if isinstance(answer, NextAction):
                return answer
            if answer.params is not None:
                return self._start(session, answer, key)
        # The sampler proposes as late as possible, so that it knows every result so far.
        with self.proposals.proposed(study_id, [number]) as session:
            row = session.trials.get(number)
            if row.state.is_finished:
                return _finish(row)
            if row.state is not TrialState.RUNNING or session.record.is_over:
                return NextAction(
                    kind=NextActionKind.WAIT,
                    reason="the study changed while the sampler proposed parameters",
                )
            return self._start(session, row, key)

    def _answer(self, session: StudyTransaction, number: int, key: str) -> NextAction | TrialRow:
        """Returns the next action of a trial's task, or the trial if it has to start a segment.

        An open segment of an earlier attempt (with another idempotency key) ends as preempted.
        """
        row = session.trials.find(number)
        segment = session.segments.find_open(number) if row is not None else None
        if row is not None and segment is not None:
            if segment.key == key:
                return self._run(session, row, segment.id, segment.from_step, segment.units)
            lost = SegmentResult(
                outcome=Outcome.PREEMPTED,
                reason="its task started again: the worker that ran it was lost",
                cause=Cause.TASK_LOST,
            )
            row = _study_transitions.end_segment(session, segment, lost)
        if row is not None and row.state.is_finished:
            return _finish(row)
        if session.record.is_over:
            return _finish_early(session, number, row)
        if session.record.state is StudyState.PAUSED:
            return NextAction(
                kind=NextActionKind.WAIT, reason=f"the study is paused: {session.record.reason}"
            )
        if row is not None and row.state is TrialState.RUNNING:
            return row
        if session.record.config.flow is Flow.ROUNDS:
            if row is None:
                raise LookupError(f"study {session.record.key} has no trial {number}")
            return _finish(row)  # paused at the barrier until a later round
        return self._ask_for_slot(session, number)

    def _ask_for_slot(self, session: StudyTransaction, number: int) -> NextAction | TrialRow:
        """Fills the free slots of a rolling study (`flow: rolling`) on behalf of a trial's task.

        Returns:
            The trial if the scheduler gave it a slot. Otherwise the task's next action: to wait,
            or to finish if the study is over.
        """
        granted, reason = _live_slots.fill_slots(session, _live_slots.count_free_slots(session))
        if number in granted:
            return session.trials.get(number)
        if not granted:
            _study_transitions.stop_if_nothing_is_left(session)
            if session.record.is_over:
                return _finish_early(session, number, session.trials.find(number))
        is_next = number == len(session.view.trials)
        return NextAction(kind=NextActionKind.WAIT, reason=reason, is_next=is_next)

    def _start(self, session: StudyTransaction, row: TrialRow, key: str) -> NextAction:
        """Starts a segment of a trial that has a slot and parameters.

        Returns:
            The next action of the trial's task: to run the segment, or to wait if no units can be
            leased. If the score cache serves the trial, the task may have to wait or finish.
        """
        if reason := _score_cache.serve(session, row):
            return NextAction(kind=NextActionKind.WAIT, reason=reason)
        if session.view.trials[row.number].state is not TrialState.RUNNING:
            # The reports from the score cache have completed, paused or stopped the trial.
            answer = self._answer(session, row.number, key)
            return answer if isinstance(answer, NextAction) else self._start(session, answer, key)
        config = session.record.config
        segment_id = uuid.uuid4().hex
        width, refusal = _allocation.width_for(session, row.number)
        refusal = refusal or session.leases.take(
            trial=row.number, segment_id=segment_id, width=width
        )
        if refusal:
            session.leases.mark_queued([row.number])
            has_queue = (
                config.flow is Flow.ROUNDS and trials_per_round(config) > config.parallelism
            )
            is_next = has_queue and row.number == session.trials.first_without_segment()
            return NextAction(kind=NextActionKind.WAIT, reason=refusal, is_next=is_next)
        from_step = session.view.trials[row.number].checkpoint_step
        runner = find_runner(config.runner)
        resources = runner.requested(config)
        if width != 1:
            resources = resources | runner.granted(config, float(width))
        session.segments.start(
            segment_id,
            row.number,
            width=width,
            key=key,
            from_step=from_step,
            until_step=row.until_step,
            runner=config.runner,
            provenance=Provenance(resources=resources).over(session.record.origin),
        )
        return self._run(session, row, segment_id, from_step, float(width))

    def _run(
        self,
        session: StudyTransaction,
        row: TrialRow,
        segment_id: str,
        from_step: int,
        units: float,
    ) -> NextAction:
        runner = find_runner(session.record.config.runner)
        is_counted = runner.reacts_to_interruptions
        mishaps = session.segments.count_mishaps(row.number) if is_counted else Mishaps()
        return NextAction(
            kind=NextActionKind.RUN,
            reason=row.reason or "the trial has a slot and a lease",
            assignment=make_assignment(
                session, row, segment_id=segment_id, from_step=from_step, units=units
            ),
            token=issue_segment_token(self.keys, segment_id),
            preemptions=mishaps.preemptions,
            ooms=mishaps.out_of_memory,
        )

    def ready(self, waiting: Sequence[Waiter]) -> list[WakeUp]:
        """Returns a wake-up for each waiting task that should request its next action again.

        The call also fills free slots of rolling studies (`flow: rolling`), and stops studies that
        have reached their target, deadline or another stopping rule.

        Args:
            waiting: The waiting tasks, of any studies.
        """
        answers: list[WakeUp] = []
        for study_id in dict.fromkeys(item.study_id for item in waiting):
            mine = [item for item in waiting if item.study_id == study_id]
            with self.ledger.study(study_id) as session:
                answers += _ready_in_study(session, mine)
        return answers

    def lost(self, study_id: int, numbers: Sequence[int]) -> list[int]:
        """Returns those of the given trials that are RUNNING in the ledger.

        Args:
            study_id: The study.
            numbers: Trials whose tasks have ended, so that none of them should be RUNNING.
        """
        with self.ledger.study(study_id) as session:
            running = session.view.in_state(TrialState.RUNNING)
            return [number for number in numbers if number in running]

    def abandon(self, study_id: int, numbers: Sequence[int]) -> list[int]:
        """Fails those of the given trials that are RUNNING.

        Args:
            study_id: The study.
            numbers: Trials whose tasks have ended and will not be retried.

        Returns:
            The numbers of the trials that this call has failed.
        """
        with self.ledger.study(study_id) as session:
            running = session.view.in_state(TrialState.RUNNING)
            lost = [
                number
                for number in [number for number in numbers if number in running]
                if _study_transitions.fail_without_task(session, number)
            ]
            if lost:
                _study_transitions.stop_if_due(session)
        return lost


def _ready_in_study(session: StudyTransaction, waiting: Sequence[Waiter]) -> list[WakeUp]:
    """Returns wake-ups for those waiting tasks of one study that should request their next action.

    A wake-up is a message that ends the waiting of one task.
    """
    config, study_id = session.record.config, session.record.id
    if not config.reproducible:
        _study_transitions.stop_if_due(session)
    if config.flow is Flow.ROLLING:
        _live_slots.fill_slots(session, _live_slots.count_free_slots(session))
        _study_transitions.stop_if_nothing_is_left(session)
    if session.record.is_over:
        return [_wake_at_end_of_study(session, item.trial) for item in waiting]
    if session.record.state is StudyState.PAUSED:
        return []
    finished = session.view.finished
    is_rounds = config.flow is Flow.ROUNDS  # where tasks wait only while the study is paused
    answers = [
        WakeUp(study_id=study_id, reason=f"{finished} trials have finished")
        for item in waiting
        if item.trial is None and (is_rounds or (item.seen is not None and finished > item.seen))
    ]
    numbers = [item.trial for item in waiting if item.trial is not None]
    answers += [
        _wake_finished(session, number) for number in numbers if _has_finished(session, number)
    ]
    running = session.view.in_state(TrialState.RUNNING)
    queued = sorted(number for number in numbers if number in running)
    if queued:
        queued = sorted(set(queued) - session.cached.waiting_for_another(queued))
        session.leases.mark_queued(queued)
    answers += [
        WakeUp(study_id=study_id, trial=number, reason="the trial has a slot and can start")
        for number in _allocation.startable(session, queued)
    ]
    return answers


def _finish(row: TrialRow) -> NextAction:
    return NextAction(kind=NextActionKind.DONE, reason=row.reason, score=trial_result(row))


def _finish_early(session: StudyTransaction, number: int, row: TrialRow | None) -> NextAction:
    """Returns the next action, to finish, for an unfinished trial of a study that is over.

    If the trial is in the ledger, it is pruned there.
    """
    reason = f"the study stops: {session.record.reason}"
    if row is None:
        score = TrialResult(trial=number, state=TrialState.PRUNED, reason=reason)
        return NextAction(kind=NextActionKind.DONE, reason=reason, score=score)
    session.trials.move(number, TrialState.PRUNED, reason)
    return _finish(session.trials.get(number))


def _has_finished(session: StudyTransaction, number: int) -> bool:
    """Checks whether a trial has finished, although its task may still be waiting.

    For example, a fold is pruned while its task waits if another fold of the trial fails.
    """
    trials = session.view.trials
    return number < len(trials) and trials[number].state.is_finished


def _wake_finished(session: StudyTransaction, number: int) -> WakeUp:
    """Returns the message that wakes up the waiting task of a finished trial.

    If the trial was pruned, the message contains the trial's result, so that the task can end
    without being scheduled on a worker again.
    """
    result = trial_result(session.trials.get(number))
    is_pruned = result.state is TrialState.PRUNED
    return WakeUp(
        study_id=session.record.id,
        trial=number,
        reason=result.reason,
        score=result if is_pruned else None,
    )


def _wake_at_end_of_study(session: StudyTransaction, number: int | None) -> WakeUp:
    """Returns the message that wakes up a waiting task whose study is over.

    Args:
        session: The study's open transaction.
        number: The number of the task's trial; None for a task that waits for the study and not
            for a trial. A trial that has neither finished nor an open segment is pruned.
    """
    result = None
    if number is not None and session.segments.find_open(number) is None:
        if _has_finished(session, number):
            result = _wake_finished(session, number).score
        else:
            result = _finish_early(session, number, session.trials.find(number)).score
    return WakeUp(
        study_id=session.record.id,
        trial=number,
        reason=session.record.reason,
        score=result,
    )
