"""A transaction that locks one study, changes its state, and reads and writes its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, func, update

from hpo_ops.config import StudyConfig
from hpo_ops.core import Study, derive_seed
from hpo_ops.ledger import _schema
from hpo_ops.ledger._checkpoint_table import CheckpointTable
from hpo_ops.ledger._policy_view import EventKind, LiveView
from hpo_ops.ledger._report_table import ReportTable
from hpo_ops.ledger._round_table import RoundTable
from hpo_ops.ledger._segment_table import SegmentTable
from hpo_ops.ledger._study_history import StudyHistory
from hpo_ops.ledger._study_leases import StudyLeases
from hpo_ops.ledger._study_record import StudyRecord, StudyState
from hpo_ops.ledger._trial_table import TrialTable
from hpo_ops.ledger.cached_trials import CachedTrials
from hpo_ops.protocol import ParamValue


class StudyTransaction:
    """A transaction on one study; created by `Ledger.study`.

    Transaction: all writes are committed together when the block of `Ledger.study` ends, or rolled
    back together if the block raises an exception.
    Lock: the study's row is locked until the commit, so that decisions about one study are made
    one after the other across all processes, and the view does not change while a policy decides.
    Keep the block short: all other requests that change the study wait for it.
    Thread safety: none. A transaction belongs to the thread that opened it and must not be used
    after the block.
    Records (`TrialRow`, `SegmentRow`, …) are copies that later writes do not change.

    Attributes:
        connection: The transaction's connection.
        record: The study, including changes made in this transaction.
        now: Seconds since the study began; never decreases from one transaction to the next.
        history: Events of the study.
        trials: Trials of the study, and the decisions about these trials.
        segments: Segments (uninterrupted executions of a trial) of the study.
        rounds: Rounds (batches of trials that are sampled together) of the study.
        reports: Reports of the study's trials.
        checkpoints: Checkpoints of the study's trials.
    """

    def __init__(self, connection: Connection, record: StudyRecord, view: LiveView) -> None:
        self.connection = connection
        self.record = record
        self.now = view.now
        self._view = view
        self.history = StudyHistory(connection, record.id)
        self.trials = TrialTable(self.history)
        self.segments = SegmentTable(self.history)
        self.rounds = RoundTable(self.history)
        self.reports = ReportTable(self.history, metric=record.config.objective.name)
        self.checkpoints = CheckpointTable(self.history)

    @property
    def view(self) -> Study:
        """The study as policies see it, including changes made in this transaction."""
        if self.history.is_changed:
            self._view.refresh(self.connection, self.record.id)
            self.history.is_changed = False  # no other writer while the study is locked
        return self._view.study

    @property
    def leases(self) -> StudyLeases:
        """The study's leases on units of its pool."""
        return StudyLeases(self.connection, self.record)

    @property
    def cached(self) -> CachedTrials:
        """Queries for trials with the same cache key, here and in studies that share trials."""
        return CachedTrials(self.connection, self.record)

    def add_trial(
        self,
        *,
        parent: int | None = None,
        requested_params: Mapping[str, ParamValue] | None = None,
        is_retraining: bool = False,
    ) -> int:
        """Adds the next trial, without hyperparameters, and returns its number.

        Args:
            parent: Number of the trial from whose checkpoint the new trial starts, if any.
            requested_params: Requested hyperparameters; None if the sampler chooses all of them.
            is_retraining: Whether the trial trains the best hyperparameters on all data; the
                sampler never receives the result of such a trial.
        """
        number = len(self.view.trials)
        self.trials.add(
            number,
            seed=derive_seed(self.record.config.seed, "trial", number),
            parent=parent,
            requested_params=requested_params,
            is_retraining=is_retraining,
        )
        return number

    # -- the study's state -------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Sets the study to STOPPING, in which no segment starts and running segments must stop.

        Does nothing if the study is already stopping or has ended.
        """
        if not self.record.is_over:
            self._update({"state": StudyState.STOPPING.value, "reason": reason})
            self.record = replace(self.record, state=StudyState.STOPPING, reason=reason)
            self.history.append(EventKind.STUDY_STOPPED, data={"reason": reason})

    def pause(self, reason: str) -> None:
        """Sets a RUNNING study to PAUSED, in which running segments must pause until `resume`.

        Does nothing if the study is not RUNNING.
        """
        if self.record.state is StudyState.RUNNING:
            self._update({"state": StudyState.PAUSED.value, "reason": reason})
            self.record = replace(self.record, state=StudyState.PAUSED, reason=reason)
            self.history.append(EventKind.STUDY_PAUSED, data={"reason": reason})

    def resume(self) -> None:
        """Sets a PAUSED study to RUNNING; does nothing in any other state."""
        if self.record.state is StudyState.PAUSED:
            self._update({"state": StudyState.RUNNING.value, "reason": ""})
            self.record = replace(self.record, state=StudyState.RUNNING, reason="")
            self.history.append(EventKind.STUDY_RESUMED)

    def begin_retraining(self, trial: int) -> None:
        """Sets the study to RETRAINING: a trial trains the best hyperparameters on all data.

        Args:
            trial: Number of the trial that does the retraining.
        """
        self._update({"state": StudyState.RETRAINING.value, "retraining": trial})
        self.record = replace(self.record, state=StudyState.RETRAINING, retraining=trial)
        self.history.append(EventKind.STUDY_RETRAINING, trial)

    def change(self, config: StudyConfig) -> None:
        """Replaces the configuration of the study."""
        self._update({"config": config.to_dict(), "lease": config.lease})
        self.record = replace(self.record, config=config)
        self._view.study.goal = config.goal
        self.history.append(EventKind.STUDY_CHANGED, data={"config": config.to_dict()})

    def end(self, result: Mapping[str, Any]) -> None:
        """Sets the study to ENDED and records its result; does nothing if the study has ended.

        Args:
            result: Content of the study's `result.json`, as plain data.
        """
        if self.record.state is not StudyState.ENDED:
            ended = {"state": StudyState.ENDED.value, "result": dict(result)}
            self._update({**ended, "ended_at": func.now()})
            self.record = replace(self.record, state=StudyState.ENDED)
            self.history.append(EventKind.STUDY_ENDED, data={"reason": self.record.reason})

    def _update(self, values: Mapping[str, object]) -> None:
        table = _schema.studies
        self.connection.execute(update(table).where(table.c.id == self.record.id).values(**values))
