"""Starts and ends studies, and carries out what people request: pause, resume, stop, change."""

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
    Retraining,
    StudyHandle,
    StudyRequest,
    StudyVerdict,
    TrialResult,
    VerdictKind,
)
from hpo_ops.config import StudyConfig, StudyError, parse_study
from hpo_ops.core import TrialState
from hpo_ops.gateway.queries.best_trial import find_best
from hpo_ops.gateway.queries.kept_checkpoints import read_kept
from hpo_ops.gateway.services import (
    _retraining,
    _score_absorption,
    _study_transitions,
    _warm_start,
)
from hpo_ops.gateway.services.conflict_error import ConflictError
from hpo_ops.gateway.services.proposals import Proposals
from hpo_ops.ledger import (
    Ledger,
    StudyIdentity,
    StudyRecord,
    StudyState,
    UnknownStudyError,
)
from hpo_ops.ledger.study_identity import is_generic
from hpo_ops.protocol import Cause, Outcome, SegmentResult

logger = logging.getLogger(__name__)

NOT_LISTED = AllowedStores(())
MAX_RUNS = 256
"""The largest number of DAG runs whose study a process caches in memory."""


@dataclass(frozen=True)
class StudyService:
    """Starts, controls and ends studies. All methods are idempotent.

    Attributes:
        ledger: The database.
        proposals: Asks samplers for parameters and tells them results.
        stores: The stores that studies may use. If the list is empty, the gateway does not check
            a study's store; the DAG's task `prepare` does.
        share: DAGs with which every study shares its trials, in addition to the study's `share`.
    """

    ledger: Ledger
    proposals: Proposals
    stores: AllowedStores = NOT_LISTED
    share: tuple[str, ...] = ()

    def start(self, request: StudyRequest) -> StudyHandle:
        """Records the study of a DAG run, unless the DAG run has a study already.

        Raises:
            StudyError: The study is invalid, or its warm start is not possible.
            ConflictError: The DAG run, or the experiment, belongs to another person.
        """
        config = parse_study(request.config, source=f"study of {request.dag_id}")
        self._check_store(config)
        identity = StudyIdentity(request.dag_id, request.run_id, request.task_group)
        share = (*config.share, *self.share)
        asker = _warm_start.Asker(identity, owner=request.owner, share=share)
        self._check_owner(asker, request)
        # Read before the study is recorded, so that an invalid warm start records no study.
        source = _warm_start.read(self.proposals, config, asker)
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
        notes = _warm_start.take(self.proposals, record, source)
        logger.info("study %s starts", record.key)
        return _handle(record, notes)

    def _check_store(self, config: StudyConfig) -> None:
        if self.stores.addresses and config.checkpoints.store is not None:
            try:
                self.stores.check(config.checkpoints.store)
            except ValueError as error:
                raise StudyError(config.name, [f"checkpoints.{error}"]) from error

    def _check_owner(self, asker: _warm_start.Asker, request: StudyRequest) -> None:
        """Checks that a run does not continue a study, or join an experiment, of another person.

        Anyone who may trigger a generic DAG chooses the run id. They could reuse the id of a
        deleted run, or declare their run a repeat of another person's run.

        Raises:
            ConflictError: The study or experiment belongs to another person, or the run that is
                to be repeated has no study.
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
        """Returns the handle of a DAG run's study: its identity and configuration, for tasks.

        Handles are cached, since a handle never changes.

        Raises:
            UnknownStudyError: The DAG run has no study.
        """
        known = self._runs.get(identity)
        if known is None:
            known = self._runs[identity] = _handle(self.ledger.find_run(identity))
        while len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)
        return known

    @cached_property
    def _runs(self) -> OrderedDict[StudyIdentity, StudyHandle]:
        return OrderedDict()

    def absorb(self, study_id: int, scores: Sequence[TrialResult]) -> AbsorbedScores:
        """Compares trial results that tasks passed through XCom with the ledger.

        A result that the ledger lacks is recorded.

        Returns:
            The trials whose results were recorded, and a sentence for each result that differs
            from the ledger.
        """
        with self.ledger.study(study_id) as session:
            compared = _score_absorption.absorb(session, scores)
            if compared.absorbed:
                _study_transitions.stop_if_due(session)
            return compared

    def verdict(self, study_id: int) -> StudyVerdict:
        """Returns whether a study continues, waits or stops; stops it if a stopping rule applies.

        A study also stops if no trial is running and its scheduler would start no other trial.
        """
        with self.ledger.study(study_id) as session:
            _study_transitions.stop_if_due(session)
            _study_transitions.stop_if_nothing_is_left(session)
            seen = session.view.finished
            if session.record.is_over:
                return StudyVerdict(kind=VerdictKind.STOP, reason=session.record.reason, seen=seen)
            if session.record.state is StudyState.PAUSED:
                return StudyVerdict(kind=VerdictKind.WAIT, reason=session.record.reason, seen=seen)
            return StudyVerdict(kind=VerdictKind.GO_ON, reason="there is more to try", seen=seen)

    def retrain(self, study_id: int) -> Retraining:
        """Adds the trial that trains the best parameters on all data, after the search has ended.

        Returns:
            The number of the added or existing trial; or no number, and the reason why no trial
            was added.
        """
        best = find_best(self.ledger, self.ledger.get(study_id))
        with self.ledger.study(study_id) as session:
            return _retraining.begin(session, best)

    def stop(self, study_id: int, reason: str) -> None:
        """Ends the search of a study: its running trials receive the action to stop.

        The study's DAG run then publishes the best trial.
        """
        with self.ledger.study(study_id) as session:
            session.stop(reason)

    def pause(self, study_id: int, reason: str) -> None:
        """Pauses a study: running trials save a checkpoint and wait until the study is resumed."""
        with self.ledger.study(study_id) as session:
            session.pause(reason)

    def resume(self, study_id: int) -> None:
        """Resumes a paused study."""
        with self.ledger.study(study_id) as session:
            session.resume()

    def change(self, study_id: int, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Changes the configuration of a running study.

        Args:
            study_id: The study.
            changes: New values by dotted key of the configuration.

        Returns:
            All keys that can be changed, with their values after the change.

        Raises:
            StudyError: A key or a value is not allowed.
            ValueError: The study is over.
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
        """Ends a study permanently: prunes unfinished trials, and tells the sampler all results.

        Args:
            study_id: The study.
            result: The content of the study's `result.json`.
        """
        with self.ledger.study(study_id) as session:
            session.stop("its DAG run ended")
            for trial in session.view.trials:
                if trial.state.is_finished:
                    continue
                if segment := session.segments.find_open(trial.number):
                    over = SegmentResult(
                        outcome=Outcome.STOPPED, reason="the study ended", cause=Cause.REQUESTED
                    )
                    _study_transitions.end_segment(session, segment, over)
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
