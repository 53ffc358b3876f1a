"""What the gateway does: the life of a study on the ledger, with Optuna and the policies."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
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
from hpo_ops.config import parse_study
from hpo_ops.core import Action, Decision, TrialState
from hpo_ops.core.settlement import SegmentHistory, settle
from hpo_ops.core.stopping import StoppingRule, passed_deadline, reached_target
from hpo_ops.gateway.tokens import issue_segment_token
from hpo_ops.ledger import Ledger, StudyRecord, StudySession, leases
from hpo_ops.protocol import Assignment, Checkpoint, Control, Outcome, Report, Result
from hpo_ops.samplers.search import Search, open_storage

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from sqlalchemy import Row

logger = logging.getLogger(__name__)


class SegmentOverError(PermissionError):
    """The segment has ended for the ledger: its agent has no business any more."""


@dataclass(frozen=True)
class Studies:
    """The life of studies. Every call is one or a few transactions and safe to repeat."""

    ledger: Ledger
    secret: str

    @cached_property
    def _storage(self) -> BaseStorage:
        return open_storage(self.ledger.engine.url.render_as_string(hide_password=False))

    # -- prepare -----------------------------------------------------------------------------

    def start(self, request: StudyRequest) -> StudyHandle:
        """Enters a study for a DAG run."""
        config = parse_study(request.config, source=f"study of {request.dag_id}")
        record = self.ledger.start_study(config, run_id=request.run_id, dag_id=request.dag_id)
        logger.info("study %s starts", record.key)
        return StudyHandle(
            id=record.id,
            name=record.name,
            run_id=record.run_id,
            key=record.key,
            store=record.config.checkpoints.store or "",
        )

    # -- rounds ------------------------------------------------------------------------------

    def sample(self, study_id: int, round_number: int) -> Group:
        """The trials of a round: the scheduler says how many and which, the sampler proposes."""
        with self.ledger.study(study_id) as session:
            row = session.round(round_number)
            if row is None:
                numbers, reason = self._form_group(session)
                session.add_round(round_number, numbers, reason)
            else:
                numbers, reason = row.members, row.reason
        self._propose(study_id, numbers)
        with self.ledger.study(study_id) as session:
            rows = session.trials(numbers)
        members = [
            {"trial": number, "params": rows[number].params, "until_step": rows[number].until_step}
            for number in numbers
        ]
        return Group(round=round_number, members=members, reason=reason)

    def _form_group(self, session: StudySession) -> tuple[list[int], str]:
        config = session.record.config
        if not session.record.is_running:
            return [], f"the study stops: {session.record.reason}"
        group = config.create_scheduler().next(session.view, config.parallelism, session.now)
        numbers = []
        for member in group.members:
            number = session.add_trial() if member.trial is None else member.trial
            session.update_trial(
                number, granted=True, until_step=member.until_step, reason=member.reason
            )
            numbers.append(number)
        return numbers, group.reason

    def _propose(self, study_id: int, numbers: Sequence[int]) -> None:
        """Asks Optuna for what has no parameters yet, outside of the study's lock."""
        with self.ledger.asking(study_id):
            with self.ledger.study(study_id) as session:
                record = session.record
                rows = session.trials(numbers)
            search = self._search(record)
            for number in sorted(numbers):
                if rows[number].params is not None:
                    continue
                params = search.ask(number)
                with self.ledger.study(study_id) as session:
                    session.propose(number, params)

    def collect(self, study_id: int, round_number: int, scores: Sequence[Score]) -> Group:
        """Takes in the scores of a round, judges what waits at the barrier, tells the sampler.

        A score that came by XCom but never reached the gateway otherwise is a trial whose last
        segment nobody closed: it is closed now.
        """
        with self.ledger.study(study_id) as session:
            row = session.round(round_number)
            if row is None:
                return Group(round=round_number, members=[], reason="the round was not sampled")
            numbers: list[int] = row.members
            for number in numbers:
                if segment := session.open_segment(number):
                    lost = Result(
                        outcome=Outcome.PREEMPTED, reason="its task ended without a word"
                    )
                    self._end_segment(session, segment, lost)
            if row.collected_at is None:
                if session.record.config.reproducible:
                    self._judge_at_barrier(session, numbers)
                self._abandon_unstarted(session, numbers)
                session.collect_round(round_number)
        self._tell(study_id, numbers)
        with self.ledger.study(study_id) as session:
            rows = session.trials(numbers)
        unknown = {score.trial for score in scores} - set(numbers)
        if unknown:
            raise ValueError(f"round {round_number} has no trials {sorted(unknown)}")
        return Group(
            round=round_number,
            members=[_score(rows[number]).to_dict() for number in numbers],
            reason=row.reason,
        )

    def _judge_at_barrier(self, session: StudySession, numbers: Sequence[int]) -> None:
        scheduler = session.record.config.create_scheduler()
        for number in sorted(numbers):
            trial = session.view.trials[number]
            if trial.state is not TrialState.PAUSED:
                continue
            decision = scheduler.on_report(session.view, trial, session.now)
            session.decide(number, trial.step, decision)
            if decision.action is Action.STOP:
                session.move_trial(number, TrialState.PRUNED, decision.reason)

    def _abandon_unstarted(self, session: StudySession, numbers: Sequence[int]) -> None:
        """A trial of the round that is neither finished nor paused will not run any more."""
        for number in numbers:
            state = session.view.trials[number].state
            if state in (TrialState.WAITING, TrialState.RUNNING):
                session.move_trial(number, TrialState.FAILED, "its task ended without a result")

    def _tell(self, study_id: int, numbers: Sequence[int]) -> None:
        with self.ledger.study(study_id) as session:
            record = session.record
            rows = session.trials(numbers)
            untold = [
                (row, session.curve(number))
                for number, row in rows.items()
                if TrialState(row.state).is_finished and not row.told and row.params is not None
            ]
        search = self._search(record)
        for row, curve in untold:
            state = TrialState(row.state)
            if state is TrialState.COMPLETED and row.value is None:
                state = TrialState.FAILED
            search.tell(row.number, state, value=row.value, curve=curve)
            with self.ledger.study(study_id) as session:
                session.update_trial(row.number, told=True)

    def _search(self, record: StudyRecord) -> Search:
        config = record.config
        return Search(
            storage=self._storage,
            name=record.key,
            space=config.space,
            direction=config.metric.direction,
            sampler=config.sampler.name,
            options=config.sampler.options,
            seed=config.seed,
        )

    # -- trials ------------------------------------------------------------------------------

    def turn(self, study_id: int, number: int, key: str) -> Turn:
        """What a trial's task is to do now: run a segment, wait, or be done.

        Args:
            study_id: The study.
            number: The trial.
            key: Names the try; the same key gets the same segment again.
        """
        with self.ledger.study(study_id) as session:
            row = session.trial(number)
            if row is None:
                raise LookupError(f"study {session.record.key} has no trial {number}")
            segment = session.open_segment(number)
            if segment is not None and segment.key == key:
                return self._run(session, row, segment.id, segment.from_step)
            if segment is not None:
                lost = Result(outcome=Outcome.PREEMPTED, reason="its worker went away")
                row = self._end_segment(session, segment, lost)
            state = TrialState(row.state)
            if not state.is_finished and not session.record.is_running:
                reason = f"the study stops: {session.record.reason}"
                session.move_trial(number, TrialState.PRUNED, reason)
                row = session.trials([number])[number]
                state = TrialState.PRUNED
            if state.is_finished or not row.granted:
                return Turn(kind=TurnKind.DONE, reason=row.reason, score=_score(row))
            return self._begin(session, row, key)

    def _begin(self, session: StudySession, row: Row[Any], key: str) -> Turn:
        config = session.record.config
        segment_id = uuid.uuid4().hex
        refusal = leases.take(
            session.connection,
            pool=config.runner,
            amount=1.0,
            study_id=session.record.id,
            trial=row.number,
            segment_id=segment_id,
            at_most=config.parallelism,
        )
        if refusal:
            return Turn(kind=TurnKind.WAIT, reason=refusal)
        from_step = session.view.trials[row.number].checkpoint_step
        session.start_segment(
            segment_id,
            row.number,
            key=key,
            from_step=from_step,
            until_step=row.until_step,
            runner=config.runner,
        )
        return self._run(session, row, segment_id, from_step)

    def _run(self, session: StudySession, row: Row[Any], segment_id: str, from_step: int) -> Turn:
        config = session.record.config
        assignment = Assignment(
            study=session.record.key,
            trial=row.number,
            segment=segment_id,
            params=row.params,
            metrics=[config.metric.name],
            from_step=from_step,
            until_step=row.until_step,
            seed=row.seed,
            checkpoint_every=config.checkpoints.every,
            grace_seconds=config.grace,
            checkpoint_store=config.checkpoints.store,
        )
        return Turn(
            kind=TurnKind.RUN,
            reason=row.reason or "it is its turn",
            assignment=assignment,
            token=issue_segment_token(self.secret, segment_id),
            command=config.command,
            code=config.code,
        )

    def ready(self, waiting: Sequence[Waiting]) -> list[Waiting]:
        """Those of the waiting that should ask for their turn again, and why."""
        answers = []
        for study_id in dict.fromkeys(item.study_id for item in waiting):
            numbers = [item.trial for item in waiting if item.study_id == study_id]
            answers += self._ready_in(study_id, numbers)
        return answers

    def _ready_in(self, study_id: int, numbers: Sequence[int | None]) -> list[Waiting]:
        with self.ledger.study(study_id) as session:
            if not session.record.is_running:
                return [
                    Waiting(study_id=study_id, trial=number, reason=session.record.reason)
                    for number in numbers
                ]
            config = session.record.config
            free = leases.free(
                session.connection,
                pool=config.runner,
                study_id=study_id,
                at_most=config.parallelism,
            )
        trials = sorted(number for number in numbers if number is not None)
        return [
            Waiting(study_id=study_id, trial=number, reason="a place is free")
            for number in trials[: int(free)]
        ]

    def result(self, study_id: int, number: int) -> Score:
        """How a trial stands."""
        with self.ledger.study(study_id) as session:
            row = session.trial(number)
        if row is None:
            raise LookupError(f"there is no trial {number}")
        return _score(row)

    # -- segments ----------------------------------------------------------------------------

    def report(self, segment_id: str, new: Sequence[Report]) -> Control:
        """Takes reports in and says what the trial is to do."""
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            segment = session.segment(segment_id)
            if segment is None or segment.outcome is not None:
                raise SegmentOverError(f"segment {segment_id} is over")
            leases.renew(session.connection, segment_id)
            self._record(session, number, segment_id, new)
            decision = self._decide(session, number, has_news=bool(new))
        return Control(action=decision.action, reason=decision.reason)

    def _record(
        self, session: StudySession, number: int, segment_id: str, new: Sequence[Report]
    ) -> None:
        if not new:
            return
        session.add_reports(number, segment_id, new)
        trial = session.view.trials[number]
        if trial.best_score is not None:
            session.update_trial(
                number,
                step=trial.step,
                best_step=trial.best_step,
                value=session.view.goal.direction.to_value(trial.best_score),
            )

    def _decide(self, session: StudySession, number: int, *, has_news: bool) -> Decision:
        view = session.view
        if reason := reached_target(view) or passed_deadline(view, session.now):
            session.stop(reason)
        if not session.record.is_running:
            return Decision(Action.STOP, f"the study stops: {session.record.reason}")
        if session.record.config.reproducible or not has_news:
            return Decision(Action.CONTINUE, "decisions are made between rounds")
        trial = view.trials[number]
        decision = session.record.config.create_scheduler().on_report(view, trial, session.now)
        session.decide(number, trial.step, decision)
        if decision.action is not Action.CONTINUE:
            logger.info(
                "trial %d %s at step %d: %s", number, decision.action, trial.step, decision.reason
            )
        return decision

    def checkpoint(self, segment_id: str, checkpoint: Checkpoint) -> None:
        """Takes in that a checkpoint is whole in the store."""
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            segment = session.segment(segment_id)
            if segment is None or segment.outcome is not None:
                raise SegmentOverError(f"segment {segment_id} is over")
            session.add_checkpoint(number, segment_id, checkpoint)

    def finish(self, segment_id: str, result: Result) -> None:
        """Absorbs how a segment ended, once, whoever brings it."""
        study_id, _ = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            segment = session.segment(segment_id)
            if segment is not None and segment.outcome is None:
                self._end_segment(session, segment, result)

    def _end_segment(self, session: StudySession, segment: Row[Any], result: Result) -> Row[Any]:
        number: int = segment.trial
        config = session.record.config
        session.end_segment(segment.id, number, result)
        view = session.view
        trial, row = view.trials[number], session.trials([number])[number]
        target = view.goal.target_score
        fruitless = trial.checkpoint_step <= segment.from_step
        preempted = result.outcome is Outcome.PREEMPTED
        settlement = settle(
            Result(**{**result.to_dict(), "step": max(result.step, trial.step)}),
            SegmentHistory(
                max_steps=config.create_scheduler().max_steps,
                failures=row.failures,
                retries=config.retries,
                fruitless_preemptions=row.preemptions if fruitless else 0,
                reached_target=(
                    target is not None
                    and trial.best_score is not None
                    and trial.best_score >= target
                ),
                is_study_over=not session.record.is_running,
            ),
        )
        session.move_trial(
            number,
            settlement.state,
            settlement.reason,
            granted=settlement.state is TrialState.WAITING,
            failures=row.failures + (result.outcome is Outcome.FAILED),
            preemptions=(row.preemptions if fruitless else 0) + preempted,
        )
        logger.info("trial %d %s: %s", number, settlement.state, settlement.reason)
        return session.trials([number])[number]

    # -- the study's end ---------------------------------------------------------------------

    def verdict(self, study_id: int) -> Verdict:
        """Whether the study goes on."""
        with self.ledger.study(study_id) as session:
            config = session.record.config
            rule = StoppingRule(patience=config.stop.patience, failures=config.stop.failures)
            if session.record.is_running and (
                reason := rule.reason_to_stop(session.view, session.now)
            ):
                session.stop(reason)
            if not session.record.is_running:
                return Verdict(kind=VerdictKind.STOP, reason=session.record.reason)
            group = config.create_scheduler().next(session.view, 1, session.now)
            if not group.members:
                session.stop(group.reason)
                return Verdict(kind=VerdictKind.STOP, reason=group.reason)
            return Verdict(kind=VerdictKind.GO_ON, reason=group.members[0].reason)

    def stop(self, study_id: int, reason: str) -> None:
        """Asks a study to end tidily."""
        with self.ledger.study(study_id) as session:
            session.stop(reason)

    def end(self, study_id: int, result: dict[str, Any]) -> None:
        """Closes the study: what still waits is pruned, every result is told, leases are free."""
        with self.ledger.study(study_id) as session:
            session.stop("the study ends")
            unfinished = [trial for trial in session.view.trials if not trial.state.is_finished]
            for trial in unfinished:
                if segment := session.open_segment(trial.number):
                    over = Result(outcome=Outcome.STOPPED, reason="the study ended")
                    self._end_segment(session, segment, over)
                else:
                    reason = f"the study ended: {session.record.reason}"
                    session.move_trial(trial.number, TrialState.PRUNED, reason)
            numbers = [trial.number for trial in session.view.trials]
        self._tell(study_id, numbers)
        with self.ledger.study(study_id) as session:
            session.end(result)


def _score(row: Row[Any]) -> Score:
    return Score(
        trial=row.number,
        state=TrialState(row.state),
        reason=row.reason,
        step=row.step,
        value=row.value,
        best_step=row.best_step,
        params=row.params or {},
    )
