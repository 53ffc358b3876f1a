"""What the gateway does for the tasks of trials: whose turn it is, and to do what."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hpo_ops.client import (
    NextAction,
    NextActionKind,
    TrialResult,
    Waiter,
    WakeUp,
)
from hpo_ops.client.token_signing import KeyRing
from hpo_ops.config import Flow
from hpo_ops.config.forecast_settings import forecast_order
from hpo_ops.config.round_planning import trials_per_round
from hpo_ops.config.runner_registry import find_runner
from hpo_ops.core import TrialState
from hpo_ops.gateway.http.tokens import issue_segment_token
from hpo_ops.gateway.services import allocation, pbt_copies, score_cache, study_transitions
from hpo_ops.gateway.services.proposals import Proposals
from hpo_ops.gateway.services.saved_checkpoints import restorable
from hpo_ops.gateway.services.segments import Segments, score_of
from hpo_ops.ledger import StudyState, StudyTransaction
from hpo_ops.ledger.rows import Mishaps, TrialRow
from hpo_ops.protocol import Assignment, Cause, Outcome, Provenance, SegmentResult


@dataclass(frozen=True)
class Turns(Segments):
    """The turns of trials. Every call is safe to repeat."""

    keys: KeyRing

    @cached_property
    def proposals(self) -> Proposals:
        """The search side."""
        return Proposals(self.ledger)

    def turn(self, study_id: int, number: int, key: str) -> NextAction:
        """What a trial's task is to do now: run a segment, wait, or be done.

        Args:
            study_id: The study.
            number: The trial.
            key: Names the try; the same key gets the same segment again.
        """
        with self.ledger.study(study_id) as session:
            answer = self._settle_turn(session, number, key)
            if isinstance(answer, NextAction):
                return answer
            if answer.params is not None:
                return self._begin(session, answer, key)
        # Late binding: the sampler is asked when the trial starts, and knows every score so far.
        with self.proposals.proposed(study_id, [number]) as session:
            row = session.trials.get(number)
            if row.state.is_finished:
                return _done(row)
            if row.state is not TrialState.RUNNING or session.record.is_over:
                return NextAction(
                    kind=NextActionKind.WAIT, reason="the study has changed meanwhile"
                )
            return self._begin(session, row, key)

    def _settle_turn(
        self, session: StudyTransaction, number: int, key: str
    ) -> NextAction | TrialRow:
        """The answer to a trial's task, or the trial's row where it has a place and may begin."""
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
            row = study_transitions.end_segment(session, segment, lost)
        if row is not None and row.state.is_finished:
            return _done(row)
        if session.record.is_over:
            return _done_without_end(session, number, row)
        if session.record.state is StudyState.PAUSED:
            return NextAction(
                kind=NextActionKind.WAIT, reason=f"the study is paused: {session.record.reason}"
            )
        if row is not None and row.state is TrialState.RUNNING:
            return row
        if session.record.config.flow is Flow.ROUNDS:
            if row is None:
                raise LookupError(f"study {session.record.key} has no trial {number}")
            return _done(row)  # paused at the barrier until a later round
        return self._queue_up(session, number)

    def _queue_up(self, session: StudyTransaction, number: int) -> NextAction | TrialRow:
        """Rolling: places go to whom the scheduler picks, which may be another trial."""
        granted, reason = study_transitions.fill_places(
            session, study_transitions.free_places(session)
        )
        if number in granted:
            return session.trials.get(number)
        if not granted:
            study_transitions.stop_if_nothing_is_left(session)
            if session.record.is_over:
                return _done_without_end(session, number, session.trials.find(number))
        is_next = number == len(session.view.trials)
        return NextAction(kind=NextActionKind.WAIT, reason=reason, is_next=is_next)

    def _begin(self, session: StudyTransaction, row: TrialRow, key: str) -> NextAction:
        if reason := score_cache.serve(session, row):
            return NextAction(kind=NextActionKind.WAIT, reason=reason)
        if session.view.trials[row.number].state is not TrialState.RUNNING:
            # Served up to where its scheduler wants to see it, if not to its end.
            answer = self._settle_turn(session, row.number, key)
            return answer if isinstance(answer, NextAction) else self._begin(session, answer, key)
        config = session.record.config
        segment_id = uuid.uuid4().hex
        width, refusal = allocation.width_for(session, row.number)
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
        has = runner.requested(config)
        if width != 1:
            has = has | runner.granted(config, float(width))
        session.segments.start(
            segment_id,
            row.number,
            width=width,
            key=key,
            from_step=from_step,
            until_step=row.until_step,
            runner=config.runner,
            provenance=Provenance(resources=has).over(session.record.origin),
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
        config = session.record.config
        runner = find_runner(config.runner)
        is_fold = config.folds is not None and row.number != session.record.retraining
        assignment = Assignment(
            study=session.record.key,
            trial=row.number,
            segment=segment_id,
            params=dict(row.params or {}),
            metrics=[metric.name for metric in config.objectives],
            from_step=from_step,
            until_step=row.until_step,
            seed=row.seed,
            checkpoint_every=config.checkpoints.every,
            grace_seconds=config.grace,
            resources=runner.granted(config, units),
            fold=row.number % config.fold_count if is_fold else None,
            folds=None if config.folds is None else config.fold_count,
            forecasts=forecast_order(config, seed=row.seed),
            checkpoint_store=config.checkpoints.store,
            deterministic=config.deterministic,
            restore_from=(
                score_cache.restore_from(session, row.number, from_step)
                or pbt_copies.restore_from(session, row, from_step)
            ),
            saved=restorable(session, row, from_step),
        )
        counts = runner.reacts_to_interruptions
        mishaps = session.segments.count_mishaps(row.number) if counts else Mishaps()
        return NextAction(
            kind=NextActionKind.RUN,
            reason=row.reason or "it is its turn",
            assignment=assignment,
            token=issue_segment_token(self.keys, segment_id),
            preemptions=mishaps.preemptions,
            ooms=mishaps.out_of_memory,
        )

    def ready(self, waiting: Sequence[Waiter]) -> list[WakeUp]:
        """Those of the waiting that should ask for their turn again, or are over, and why."""
        answers: list[WakeUp] = []
        for study_id in dict.fromkeys(item.study_id for item in waiting):
            mine = [item for item in waiting if item.study_id == study_id]
            with self.ledger.study(study_id) as session:
                answers += self._ready_in(session, mine)
        return answers

    def _ready_in(self, session: StudyTransaction, waiting: Sequence[Waiter]) -> list[WakeUp]:
        study_id = session.record.id
        if not session.record.config.reproducible:
            study_transitions.stop_if_due(session)
        if session.record.config.flow is Flow.ROLLING:
            study_transitions.fill_places(session, study_transitions.free_places(session))
            study_transitions.stop_if_nothing_is_left(session)
        if session.record.is_over:
            return [_over(session, item.trial) for item in waiting]
        if session.record.state is StudyState.PAUSED:
            return []
        finished = session.view.finished
        is_rounds = session.record.config.flow is Flow.ROUNDS  # waits only while it is paused
        answers = [
            WakeUp(study_id=study_id, reason="the study has news")
            for item in waiting
            if item.trial is None
            and (is_rounds or (item.seen is not None and finished > item.seen))
        ]
        wanted = [item.trial for item in waiting if item.trial is not None]
        answers += [_ended(session, number) for number in wanted if _is_ended(session, number)]
        running = session.view.in_state(TrialState.RUNNING)
        numbers = sorted(number for number in wanted if number in running)
        if numbers:
            numbers = sorted(set(numbers) - session.cached.waiting_for_another(numbers))
            session.leases.mark_queued(numbers)
        answers += [
            WakeUp(study_id=study_id, trial=number, reason="a place is free")
            for number in allocation.startable(session, numbers)
        ]
        return answers

    def lost(self, study_id: int, numbers: Sequence[int]) -> list[int]:
        """Those of the trials that the ledger has as running, although their tasks have ended."""
        with self.ledger.study(study_id) as session:
            running = session.view.in_state(TrialState.RUNNING)
            return [number for number in numbers if number in running]

    def abandon(self, study_id: int, numbers: Sequence[int]) -> list[int]:
        """Fails those of the trials that still run although their tasks have ended for good.

        Returns:
            Their numbers.
        """
        lost = []
        with self.ledger.study(study_id) as session:
            running = session.view.in_state(TrialState.RUNNING)
            for number in [number for number in numbers if number in running]:
                if segment := session.segments.find_open(number):
                    over = SegmentResult(
                        outcome=Outcome.PREEMPTED,
                        reason="its task has ended",
                        cause=Cause.TASK_LOST,
                    )
                    study_transitions.end_segment(session, segment, over)
                if session.view.trials[number].state is TrialState.RUNNING:
                    study_transitions.fail_lost(
                        session, number, "its task has ended without a result"
                    )
                    lost.append(number)
            if lost:
                study_transitions.stop_if_due(session)
        return lost


def _done(row: TrialRow) -> NextAction:
    return NextAction(kind=NextActionKind.DONE, reason=row.reason, score=score_of(row))


def _done_without_end(session: StudyTransaction, number: int, row: TrialRow | None) -> NextAction:
    """The study is over for a trial that has not finished, or that never was."""
    reason = f"the study stops: {session.record.reason}"
    if row is None:
        score = TrialResult(trial=number, state=TrialState.PRUNED, reason=reason)
        return NextAction(kind=NextActionKind.DONE, reason=reason, score=score)
    session.trials.move(number, TrialState.PRUNED, reason)
    return _done(session.trials.get(number))


def _is_ended(session: StudyTransaction, number: int) -> bool:
    """Whether a trial has ended while its task waited, as a fold does by another one."""
    trials = session.view.trials
    return number < len(trials) and trials[number].state.is_finished


def _ended(session: StudyTransaction, number: int) -> WakeUp:
    score = score_of(session.trials.get(number))
    is_pruned = score.state is TrialState.PRUNED  # others end in their task
    return WakeUp(
        study_id=session.record.id,
        trial=number,
        reason=score.reason,
        score=score if is_pruned else None,
    )


def _over(session: StudyTransaction, number: int | None) -> WakeUp:
    """The end of a wait because the study is over; the trial, if any, is pruned."""
    score = None
    if number is not None and session.segments.find_open(number) is None:
        if _is_ended(session, number):
            score = _ended(session, number).score
        else:
            score = _done_without_end(session, number, session.trials.find(number)).score
    return WakeUp(
        study_id=session.record.id,
        trial=number,
        reason=session.record.reason,
        score=score,
    )
