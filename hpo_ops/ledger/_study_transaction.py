"""One transaction on one study, whose row is locked: commands on the study, and its tables."""

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
    """A transaction on one study, made by `Ledger.study`.

    Transaction: everything that is written here is committed together when the block of
    `Ledger.study` ends, or rolled back together where it raises.
    Lock: the study's row is locked from the first statement to the commit, so that decisions of
    one study are made one after the other, in whichever process. Policies therefore decide on a
    view that nobody changes meanwhile. Keep the block short: every report of the study waits.
    Thread safety: none. A transaction belongs to the thread that opened it and must not be used
    after its block.
    Records that were read (`TrialRow`, `SegmentRow`, …) are copies: they do not change with later
    commands.

    Attributes:
        record: The study, with everything written so far.
        now: Seconds since the study began. It never goes back from one transaction to the next.
        history: The study's events.
        trials: Its trials, and the decisions about them.
        segments: Its segments.
        rounds: Its rounds.
        reports: Its reports.
        checkpoints: Its checkpoints.
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
        """The study as policies see it, with everything written so far."""
        if self.history.is_changed:
            self._view.refresh(self.connection, self.record.id)
            self.history.is_changed = False  # nobody else writes while the study is locked
        return self._view.study

    @property
    def leases(self) -> StudyLeases:
        """The study's part in its pool."""
        return StudyLeases(self.connection, self.record)

    @property
    def cached(self) -> CachedTrials:
        """Trials of this and other studies that would report the same as one of this study."""
        return CachedTrials(self.connection, self.record)

    def add_trial(
        self,
        *,
        parent: int | None = None,
        requested_params: Mapping[str, ParamValue] | None = None,
        is_retraining: bool = False,
    ) -> int:
        """Reserves the next trial, without parameters yet, and returns its number.

        Args:
            parent: The trial whose checkpoint it starts from.
            requested_params: Parameters that it is to have; None leaves them to the sampler.
            is_retraining: Whether it trains the best trial on all data; the sampler never learns
                of such a trial.
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
        """Ends the search: no segment starts any more, and running ones are told to stop."""
        if not self.record.is_over:
            self._update({"state": StudyState.STOPPING.value, "reason": reason})
            self.record = replace(self.record, state=StudyState.STOPPING, reason=reason)
            self.history.append(EventKind.STUDY_STOPPED, data={"reason": reason})

    def pause(self, reason: str) -> None:
        """Pauses a running study: running segments are told to pause until `resume`."""
        if self.record.state is StudyState.RUNNING:
            self._update({"state": StudyState.PAUSED.value, "reason": reason})
            self.record = replace(self.record, state=StudyState.PAUSED, reason=reason)
            self.history.append(EventKind.STUDY_PAUSED, data={"reason": reason})

    def resume(self) -> None:
        """Resumes a paused study."""
        if self.record.state is StudyState.PAUSED:
            self._update({"state": StudyState.RUNNING.value, "reason": ""})
            self.record = replace(self.record, state=StudyState.RUNNING, reason="")
            self.history.append(EventKind.STUDY_RESUMED)

    def begin_retraining(self, trial: int) -> None:
        """Ends the search; a trial trains the best one on all data."""
        self._update({"state": StudyState.RETRAINING.value, "retraining": trial})
        self.record = replace(self.record, state=StudyState.RETRAINING, retraining=trial)
        self.history.append(EventKind.STUDY_RETRAINING, trial)

    def change(self, config: StudyConfig) -> None:
        """Replaces the configuration of the study while it runs."""
        self._update({"config": config.to_dict(), "lease": config.lease})
        self.record = replace(self.record, config=config)
        self._view.study.goal = config.goal
        self.history.append(EventKind.STUDY_CHANGED, data={"config": config.to_dict()})

    def end(self, result: Mapping[str, Any]) -> None:
        """Ends the study for good.

        Args:
            result: What `result.json` of the study has, as plain data.
        """
        if self.record.state is not StudyState.ENDED:
            ended = {"state": StudyState.ENDED.value, "result": dict(result)}
            self._update({**ended, "ended_at": func.now()})
            self.record = replace(self.record, state=StudyState.ENDED)
            self.history.append(EventKind.STUDY_ENDED, data={"reason": self.record.reason})

    def _update(self, values: Mapping[str, object]) -> None:
        table = _schema.studies
        self.connection.execute(update(table).where(table.c.id == self.record.id).values(**values))
