"""What the gateway does: the life of studies on the ledger."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hpo_ops.checkpoints.allowed_stores import AllowedStores
from hpo_ops.client import (
    AbsorbedScores,
    CollectedRound,
    PlannedTrial,
    Retraining,
    Round,
    StudyHandle,
    StudyRequest,
    StudyVerdict,
    TrialResult,
    VerdictKind,
)
from hpo_ops.config import StudyConfig, StudyError, parse_study
from hpo_ops.config.round_planning import trials_per_round
from hpo_ops.core import TrialState
from hpo_ops.gateway.queries.best_trial import find_best
from hpo_ops.gateway.queries.kept_checkpoints import read_kept
from hpo_ops.gateway.services import (
    retraining,
    score_absorption,
    study_transitions,
    warm_start,
)
from hpo_ops.gateway.services.conflict_error import ConflictError
from hpo_ops.gateway.services.next_actions import Turns
from hpo_ops.gateway.services.segments import score_of
from hpo_ops.ledger import (
    StudyIdentity,
    StudyRecord,
    StudyState,
    StudyTransaction,
    UnknownStudyError,
)
from hpo_ops.ledger.study_identity import is_generic
from hpo_ops.protocol import Cause, Outcome, SegmentResult

logger = logging.getLogger(__name__)

NOT_LISTED = AllowedStores(())
MAX_RUNS = 256
"""DAG runs whose study a process remembers."""


@dataclass(frozen=True)
class Studies(Turns):
    """The life of studies and their segments. Every call is safe to repeat.

    Attributes:
        stores: The stores that studies may use; where it lists none, `prepare` alone checks them.
        share: DAGs with which every study shares what it has learned, whatever it says itself.
    """

    stores: AllowedStores = NOT_LISTED
    share: tuple[str, ...] = ()

    def start(self, request: StudyRequest) -> StudyHandle:
        """Enters a study for a DAG run.

        Raises:
            StudyError: It cannot start from the study that it names.
            ConflictError: The DAG run, or the experiment, is another person's.
        """
        config = parse_study(request.config, source=f"study of {request.dag_id}")
        self._check_store(config)
        identity = StudyIdentity(request.dag_id, request.run_id, request.task_group)
        share = (*config.share, *self.share)
        asker = warm_start.Asker(identity, owner=request.owner, share=share)
        self._check_owner(asker, request)
        # What cannot be started from is told before the study is there.
        source = warm_start.read(self.proposals, config, asker)
        record = self.ledger.start_study(
            config,
            identity=identity,
            owner=request.owner,
            share=share,
            capacity=request.capacity,
            origin=request.origin,
            archive=request.archive,
            packages=request.packages,
            experiment=request.experiment,
            repeat=request.repeat,
        )
        notes = warm_start.take(self.proposals, record, source)
        logger.info("study %s starts", record.key)
        return _handle(record, notes)

    def _check_store(self, config: StudyConfig) -> None:
        if self.stores.addresses and config.checkpoints.store is not None:
            try:
                self.stores.check(config.checkpoints.store)
            except ValueError as error:
                raise StudyError(config.name, [f"checkpoints.{error}"]) from error

    def _check_owner(self, asker: warm_start.Asker, request: StudyRequest) -> None:
        """Refuses a run that would continue a study, or join an experiment, of another person.

        Run ids of a generic DAG are free to choose: a run that was deleted can be triggered again
        by someone else, and so can a run that calls itself a repeat.
        """
        runs = {request.run_id, request.experiment or request.run_id}
        for run_id in sorted(runs):
            identity = replace(asker.identity, run_id=run_id)
            try:
                record = self.ledger.find_run(identity)
            except UnknownStudyError:
                if run_id == request.run_id:
                    continue
                raise ConflictError(
                    f"run {request.run_id} of {request.dag_id} is a repeat of {run_id}, "
                    "but that run has no study"
                ) from None
            is_anothers = record.owner not in (None, request.owner)
            if is_anothers and is_generic(record.dag_id):
                raise ConflictError(
                    f"run {run_id} of {request.dag_id} has a study of another person: "
                    "trigger the study with another run id"
                )

    def study_of_run(self, identity: StudyIdentity) -> StudyHandle:
        """The study of a DAG run; what the run's tasks may read of it never changes."""
        known = self._runs.get(identity)
        if known is None:
            known = self._runs[identity] = _handle(self.ledger.find_run(identity))
        while len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)
        return known

    @cached_property
    def _runs(self) -> OrderedDict[StudyIdentity, StudyHandle]:
        return OrderedDict()

    # -- rounds ------------------------------------------------------------------------------

    def sample(self, study_id: int, round_number: int, rounds_left: int = 1_000_000) -> Round:
        """The trials of a round: the scheduler says how many and which, the sampler proposes.

        Args:
            study_id: The study.
            round_number: The round; the same one gets the same trials again.
            rounds_left: Rounds that the DAG still has, this one included. A round is larger than
                usual where they would not suffice otherwise.
        """
        with self.ledger.study(study_id) as session:
            row = session.rounds.find(round_number)
            if row is None:
                left = session.view.unstarted + len(session.view.in_state(TrialState.PAUSED))
                size = max(
                    trials_per_round(session.record.config), -(-left // max(rounds_left, 1))
                )
                numbers, reason = study_transitions.fill_places(session, size)
                session.rounds.add(round_number, numbers, reason)
            else:
                numbers, reason = list(row.members), row.reason
        with self.proposals.proposed(study_id, numbers) as session:
            rows = session.trials.select(numbers)
        planned = [
            PlannedTrial(
                trial=number,
                params=dict(rows[number].params or {}),
                until_step=rows[number].until_step,
            )
            for number in numbers
        ]
        return Round(number=round_number, trials=planned, reason=reason)

    def collect(
        self, study_id: int, round_number: int, scores: Sequence[TrialResult]
    ) -> CollectedRound:
        """Closes a round: absorbs scores, judges trials at the barrier, tells the sampler.

        Args:
            study_id: The study.
            round_number: The round.
            scores: The scores that the tasks of its trials handed on by XCom.
        """
        compared = AbsorbedScores()
        with self.ledger.study(study_id) as session:
            row = session.rounds.find(round_number)
            if row is None:
                raise LookupError(f"round {round_number} was never sampled")
            numbers = row.members
            if unknown := {score.trial for score in scores} - set(numbers):
                raise ValueError(f"round {round_number} has no trials {sorted(unknown)}")
            if not row.is_collected:
                compared = score_absorption.absorb(session, scores)
                self._close_round(session, numbers)
                session.rounds.mark_collected(round_number)
        with self.proposals.proposed(study_id, []) as session:
            rows = session.trials.select(numbers)
        return CollectedRound(
            number=round_number,
            results=[score_of(rows[number]) for number in numbers],
            scores=compared,
        )

    def absorb(self, study_id: int, scores: Sequence[TrialResult]) -> AbsorbedScores:
        """Compares scores that came by XCom with the ledger, and absorbs what it misses."""
        with self.ledger.study(study_id) as session:
            compared = score_absorption.absorb(session, scores)
            if compared.absorbed:
                study_transitions.stop_if_due(session)
            return compared

    def _close_round(self, session: StudyTransaction, numbers: Sequence[int]) -> None:
        """A trial of the round that has neither finished nor paused has lost its task for good."""
        for number in numbers:
            if segment := session.segments.find_open(number):
                lost = SegmentResult(
                    outcome=Outcome.PREEMPTED,
                    reason="its task has ended",
                    cause=Cause.TASK_LOST,
                )
                study_transitions.end_segment(session, segment, lost)
            if session.view.trials[number].state is TrialState.RUNNING:
                study_transitions.fail_lost(session, number, "its task has ended without a result")
        if session.record.config.reproducible:
            study_transitions.judge_at_barrier(session, numbers)

    # -- the study ---------------------------------------------------------------------------

    def verdict(self, study_id: int) -> StudyVerdict:
        """Whether the study goes on."""
        with self.ledger.study(study_id) as session:
            study_transitions.stop_if_due(session)
            study_transitions.stop_if_nothing_is_left(session)
            seen = session.view.finished
            if session.record.is_over:
                return StudyVerdict(kind=VerdictKind.STOP, reason=session.record.reason, seen=seen)
            if session.record.state is StudyState.PAUSED:
                return StudyVerdict(kind=VerdictKind.WAIT, reason=session.record.reason, seen=seen)
            return StudyVerdict(kind=VerdictKind.GO_ON, reason="there is more to try", seen=seen)

    def retrain(self, study_id: int) -> Retraining:
        """The trial that trains the best one on all data, once the search is over."""
        best = find_best(self.ledger, self.ledger.get(study_id))
        with self.ledger.study(study_id) as session:
            return retraining.begin(session, best)

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
                if segment := session.segments.find_open(trial.number):
                    over = SegmentResult(
                        outcome=Outcome.STOPPED, reason="the study ended", cause=Cause.REQUESTED
                    )
                    study_transitions.end_segment(session, segment, over)
                else:
                    reason = f"the study ended: {session.record.reason}"
                    session.trials.move(trial.number, TrialState.PRUNED, reason)
        with self.proposals.proposed(study_id, []) as session:
            session.checkpoints.forget_except(read_kept(session.connection, session.record))
            session.end(result)


def _handle(record: StudyRecord, notes: Sequence[str] = ()) -> StudyHandle:
    return StudyHandle(
        id=record.id,
        name=record.name,
        run_id=record.run_id,
        key=record.key,
        config=record.config.to_json(),
        archive=record.archive,
        packages=list(record.packages),
        code_hash=record.origin.code_hash,
        notes=list(notes),
    )
