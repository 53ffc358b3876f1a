"""What the gateway does: the life of studies on the ledger."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hpo_ops.client import (
    Group,
    Score,
    StudyHandle,
    StudyRequest,
    Turn,
    TurnKind,
    Verdict,
    VerdictKind,
    Waiting,
)
from hpo_ops.config import Flow, parse_study
from hpo_ops.config.forecasts import forecast_order
from hpo_ops.config.shares import given
from hpo_ops.core import TrialState
from hpo_ops.gateway import cache, reading, rules, sizes, warm
from hpo_ops.gateway.proposals import Proposals
from hpo_ops.gateway.segments import Segments, score_of
from hpo_ops.gateway.tokens import issue_segment_token
from hpo_ops.ledger import StudySession, StudyState, leases
from hpo_ops.protocol import Assignment, Outcome, Provenance, Result

if TYPE_CHECKING:
    from sqlalchemy import Row

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Studies(Segments):
    """The life of studies and their segments. Every call is safe to repeat."""

    secret: str

    @cached_property
    def proposals(self) -> Proposals:
        """The search side."""
        return Proposals(self.ledger)

    def start(self, request: StudyRequest) -> StudyHandle:
        """Enters a study for a DAG run."""
        config = parse_study(request.config, source=f"study of {request.dag_id}")
        # What cannot be started from is told before the study is there.
        source = warm.read(self.proposals, config, run_id=request.run_id)
        record = self.ledger.start_study(
            config,
            run_id=request.run_id,
            dag_id=request.dag_id,
            capacity=request.capacity,
            origin=request.origin,
            experiment=request.experiment,
            repeat=request.repeat,
        )
        notes = warm.take(self.proposals, record, source)
        logger.info("study %s starts", record.key)
        return StudyHandle(
            id=record.id,
            name=record.name,
            run_id=record.run_id,
            key=record.key,
            store=record.config.checkpoints.store or "",
            code=record.config.code,
            runner=record.config.runner,
            image=record.config.image,
            resources=record.config.resources.model_dump(mode="json"),
            pod=record.config.pod.model_dump(mode="json"),
            env=record.config.env,
            criterion=record.config.stop.when,
            finalizers=list(record.config.finalizers),
            notes=notes,
        )

    # -- rounds ------------------------------------------------------------------------------

    def sample(self, study_id: int, round_number: int, rounds_left: int = 1_000_000) -> Group:
        """The trials of a round: the scheduler says how many and which, the sampler proposes.

        Args:
            study_id: The study.
            round_number: The round; the same one gets the same trials again.
            rounds_left: Rounds that the DAG still has, this one included. A round is larger than
                the parallelism where they would not suffice otherwise.
        """
        with self.ledger.study(study_id) as session:
            row = session.round(round_number)
            if row is None:
                left = session.view.unstarted + len(session.view.in_state(TrialState.PAUSED))
                size = max(session.record.config.parallelism, -(-left // max(rounds_left, 1)))
                numbers, reason = rules.fill_places(session, size)
                session.add_round(round_number, numbers, reason)
            else:
                numbers, reason = row.members, row.reason
        with self.proposals.proposed(study_id, numbers) as session:
            rows = session.trials(numbers)
        members = [
            {"trial": number, "params": rows[number].params, "until_step": rows[number].until_step}
            for number in numbers
        ]
        return Group(round=round_number, members=members, reason=reason)

    def collect(self, study_id: int, round_number: int, scores: Sequence[Score]) -> Group:
        """Takes in the scores of a round, judges what waits at the barrier, tells the sampler."""
        with self.ledger.study(study_id) as session:
            row = session.round(round_number)
            if row is None:
                raise LookupError(f"round {round_number} was never sampled")
            numbers: list[int] = row.members
            if unknown := {score.trial for score in scores} - set(numbers):
                raise ValueError(f"round {round_number} has no trials {sorted(unknown)}")
            if row.collected_at is None:
                self._close_round(session, numbers)
                session.collect_round(round_number)
        with self.proposals.proposed(study_id, []) as session:
            rows = session.trials(numbers)
        return Group(
            round=round_number,
            members=[score_of(rows[number]).to_dict() for number in numbers],
            reason=row.reason,
        )

    def _close_round(self, session: StudySession, numbers: Sequence[int]) -> None:
        """A trial of the round that has neither finished nor paused has lost its task for good."""
        for number in numbers:
            if segment := session.open_segment(number):
                lost = Result(outcome=Outcome.PREEMPTED, reason="its task ended without a word")
                rules.end_segment(session, segment, lost)
            if session.view.trials[number].state is TrialState.RUNNING:
                session.move_trial(number, TrialState.FAILED, "its task ended without a result")
        if session.record.config.reproducible:
            rules.judge_at_barrier(session, numbers)

    # -- trials ------------------------------------------------------------------------------

    def turn(self, study_id: int, number: int, key: str) -> Turn:
        """What a trial's task is to do now: run a segment, wait, or be done.

        Args:
            study_id: The study.
            number: The trial.
            key: Names the try; the same key gets the same segment again.
        """
        with self.ledger.study(study_id) as session:
            answer = self._settle_turn(session, number, key)
            if isinstance(answer, Turn):
                return answer
            if answer.params is not None:
                return self._begin(session, answer, key)
        # Late binding: the sampler is asked when the trial starts, and knows every score so far.
        with self.proposals.proposed(study_id, [number]) as session:
            row = session.trials([number])[number]
            if TrialState(row.state).is_finished:
                return _done(row)
            if TrialState(row.state) is not TrialState.RUNNING or session.record.is_over:
                return Turn(kind=TurnKind.WAIT, reason="the study has changed meanwhile")
            return self._begin(session, row, key)

    def _settle_turn(self, session: StudySession, number: int, key: str) -> Turn | Row[Any]:
        """The answer to a trial's task, or the trial's row where it has a place and may begin."""
        row = session.trial(number)
        segment = session.open_segment(number) if row is not None else None
        if row is not None and segment is not None:
            if segment.key == key:
                return self._run(session, row, segment.id, segment.from_step, segment.units)
            lost = Result(outcome=Outcome.PREEMPTED, reason="its worker went away")
            row = rules.end_segment(session, segment, lost)
        if row is not None and TrialState(row.state).is_finished:
            return _done(row)
        if session.record.is_over:
            return _done_without_end(session, number, row)
        if session.record.state is StudyState.PAUSED:
            return Turn(kind=TurnKind.WAIT, reason=f"the study is paused: {session.record.reason}")
        if row is not None and TrialState(row.state) is TrialState.RUNNING:
            return row
        if session.record.config.flow is Flow.ROUNDS:
            if row is None:
                raise LookupError(f"study {session.record.key} has no trial {number}")
            return _done(row)  # paused at the barrier until a later round
        return self._queue_up(session, number)

    def _queue_up(self, session: StudySession, number: int) -> Turn | Row[Any]:
        """Rolling: places go to whom the scheduler picks, which may be another trial."""
        granted, reason = rules.fill_places(session, rules.free_places(session))
        if number in granted:
            return session.trials([number])[number]
        if not granted:
            rules.stop_if_nothing_is_left(session)
            if session.record.is_over:
                return _done_without_end(session, number, session.trial(number))
        is_next = number == len(session.view.trials)
        return Turn(kind=TurnKind.WAIT, reason=reason, is_next=is_next)

    def _begin(self, session: StudySession, row: Row[Any], key: str) -> Turn:
        if reason := cache.serve(session, row):
            return Turn(kind=TurnKind.WAIT, reason=reason)
        if session.view.trials[row.number].state is not TrialState.RUNNING:
            # Served up to where its scheduler wants to see it, if not to its end.
            answer = self._settle_turn(session, row.number, key)
            return answer if isinstance(answer, Turn) else self._begin(session, answer, key)
        config = session.record.config
        segment_id = uuid.uuid4().hex
        width, refusal = sizes.width_for(session, row.number)
        refusal = refusal or leases.take(
            session.connection,
            pool=config.pool,
            amount=float(width) * config.lease,
            study_id=session.record.id,
            trial=row.number,
            segment_id=segment_id,
            at_most=config.parallelism,
        )
        if refusal:
            leases.ask(session.connection, study_id=session.record.id, numbers=[row.number])
            return Turn(kind=TurnKind.WAIT, reason=refusal)
        from_step = session.view.trials[row.number].checkpoint_step
        session.start_segment(
            segment_id,
            row.number,
            width=width,
            key=key,
            from_step=from_step,
            until_step=row.until_step,
            runner=config.runner,
            provenance=Provenance(resources=config.given).over(session.record.origin).known(),
        )
        return self._run(session, row, segment_id, from_step, float(width))

    def _run(
        self,
        session: StudySession,
        row: Row[Any],
        segment_id: str,
        from_step: int,
        units: float,
    ) -> Turn:
        config = session.record.config
        assignment = Assignment(
            study=session.record.key,
            trial=row.number,
            segment=segment_id,
            params=row.params,
            metrics=[metric.name for metric in config.objectives],
            from_step=from_step,
            until_step=row.until_step,
            seed=row.seed,
            checkpoint_every=config.checkpoints.every,
            grace_seconds=config.grace,
            resources=given(config, units),
            forecasts=forecast_order(config, seed=row.seed),
            checkpoint_store=config.checkpoints.store,
            deterministic=config.deterministic,
            restore_from=cache.restore_from(session, row, from_step),
        )
        is_pod = config.runner == "kubernetes"
        preemptions, ooms = session.mishaps(row.number) if is_pod else (0, 0)
        return Turn(
            kind=TurnKind.RUN,
            reason=row.reason or "it is its turn",
            assignment=assignment,
            token=issue_segment_token(self.secret, segment_id),
            command=config.command,
            code=config.code,
            preemptions=preemptions,
            ooms=ooms,
        )

    def ready(self, waiting: Sequence[Waiting]) -> list[Waiting]:
        """Those of the waiting that should ask for their turn again, or are over, and why."""
        answers: list[Waiting] = []
        for study_id in dict.fromkeys(item.study_id for item in waiting):
            mine = [item for item in waiting if item.study_id == study_id]
            with self.ledger.study(study_id) as session:
                answers += self._ready_in(session, mine)
        return answers

    def _ready_in(self, session: StudySession, waiting: Sequence[Waiting]) -> list[Waiting]:
        study_id = session.record.id
        if not session.record.config.reproducible:
            rules.stop_if_due(session)
        if session.record.config.flow is Flow.ROLLING:
            rules.fill_places(session, rules.free_places(session))
            rules.stop_if_nothing_is_left(session)
        if session.record.is_over:
            return [_over(session, item.trial) for item in waiting]
        if session.record.state is StudyState.PAUSED:
            return []
        finished = session.view.finished
        is_rounds = session.record.config.flow is Flow.ROUNDS  # waits only while it is paused
        answers = [
            Waiting(study_id=study_id, seen=finished, reason="the study has news")
            for item in waiting
            if item.trial is None
            and (is_rounds or (item.seen is not None and finished > item.seen))
        ]
        running = session.view.in_state(TrialState.RUNNING)
        numbers = sorted(
            item.trial for item in waiting if item.trial is not None and item.trial in running
        )
        if numbers:
            numbers = sorted(set(numbers) - cache.held_up(session, numbers))
            leases.ask(session.connection, study_id=study_id, numbers=numbers)
        answers += [
            Waiting(study_id=study_id, trial=number, reason="a place is free")
            for number in sizes.startable(session, numbers)
        ]
        return answers

    def abandon(self, study_id: int, numbers: Sequence[int]) -> list[int]:
        """Fails those of the trials that still run although their tasks have ended for good.

        Returns:
            Their numbers.
        """
        lost = []
        with self.ledger.study(study_id) as session:
            running = session.view.in_state(TrialState.RUNNING)
            for number in [number for number in numbers if number in running]:
                if segment := session.open_segment(number):
                    over = Result(outcome=Outcome.PREEMPTED, reason="its task has ended")
                    rules.end_segment(session, segment, over)
                if session.view.trials[number].state is TrialState.RUNNING:
                    reason = "its task has ended without a result"
                    session.move_trial(number, TrialState.FAILED, reason)
                    lost.append(number)
            if lost:
                rules.stop_if_due(session)
        return lost

    # -- the study ---------------------------------------------------------------------------

    def verdict(self, study_id: int) -> Verdict:
        """Whether the study goes on."""
        with self.ledger.study(study_id) as session:
            rules.stop_if_due(session)
            rules.stop_if_nothing_is_left(session)
            seen = session.view.finished
            if session.record.is_over:
                return Verdict(kind=VerdictKind.STOP, reason=session.record.reason, seen=seen)
            if session.record.state is StudyState.PAUSED:
                return Verdict(kind=VerdictKind.WAIT, reason=session.record.reason, seen=seen)
            return Verdict(kind=VerdictKind.GO_ON, reason="there is more to try", seen=seen)

    def stop(self, study_id: int, reason: str) -> None:
        """Asks a study to end tidily."""
        with self.ledger.study(study_id) as session:
            session.stop(reason)

    def pause(self, study_id: int, reason: str) -> None:
        """Holds a study: what runs saves and leaves."""
        with self.ledger.study(study_id) as session:
            session.pause(reason)

    def resume(self, study_id: int) -> None:
        """Lets a paused study go on."""
        with self.ledger.study(study_id) as session:
            session.resume()

    def change(self, study_id: int, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Changes a running study; returns what is in force now.

        Raises:
            StudyError: A key or a value is not allowed.
        """
        with self.ledger.study(study_id) as session:
            if session.record.is_over:
                raise ValueError(f"{session.record.name} is over: {session.record.reason}")
            config = session.record.config.change(
                changes, source=session.record.name, is_running=True
            )
            session.change(config)
            return config.changeable()

    def end(self, study_id: int, result: dict[str, Any]) -> None:
        """Closes the study: what still waits is pruned, every result is told, leases are free."""
        with self.ledger.study(study_id) as session:
            session.stop("its DAG run ended")
            for trial in session.view.trials:
                if trial.state.is_finished:
                    continue
                if segment := session.open_segment(trial.number):
                    over = Result(outcome=Outcome.STOPPED, reason="the study ended")
                    rules.end_segment(session, segment, over)
                else:
                    reason = f"the study ended: {session.record.reason}"
                    session.move_trial(trial.number, TrialState.PRUNED, reason)
        with self.proposals.proposed(study_id, []) as session:
            session.forget_checkpoints(reading.kept(session.connection, session.record))
            session.end(result)


def _done(row: Row[Any]) -> Turn:
    return Turn(kind=TurnKind.DONE, reason=row.reason, score=score_of(row))


def _done_without_end(session: StudySession, number: int, row: Row[Any] | None) -> Turn:
    """The study is over for a trial that has not finished, or that never was."""
    reason = f"the study stops: {session.record.reason}"
    if row is None:
        score = Score(trial=number, state=TrialState.PRUNED, reason=reason)
        return Turn(kind=TurnKind.DONE, reason=reason, score=score)
    session.move_trial(number, TrialState.PRUNED, reason)
    return _done(session.trials([number])[number])


def _over(session: StudySession, number: int | None) -> Waiting:
    """The end of a wait because the study is over; the trial, if any, is pruned."""
    score = None
    if number is not None and session.open_segment(number) is None:
        row = session.trial(number)
        if row is None or not TrialState(row.state).is_finished:
            score = _done_without_end(session, number, row).score
    return Waiting(
        study_id=session.record.id,
        trial=number,
        reason=session.record.reason,
        is_over=True,
        score=score,
    )
