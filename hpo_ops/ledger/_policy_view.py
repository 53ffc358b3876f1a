"""The in-memory view of a study for policies, built from events and reports in order of their ids.

Policies are schedulers, allocators and samplers.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, Row, select

from hpo_ops.core import Goal, Study, TrialState
from hpo_ops.core.fold_aggregation import by_trial
from hpo_ops.curves import QuantileForecast
from hpo_ops.ledger._schema import events, forecasts, reports


class EventKind(StrEnum):
    """The possible kinds of events in the history of a study."""

    STUDY_STARTED = "study started"
    STUDY_CHANGED = "study changed"
    STUDY_STOPPED = "study stopped"
    STUDY_PAUSED = "study paused"
    STUDY_RESUMED = "study resumed"
    STUDY_RETRAINING = "study retraining"
    STUDY_ENDED = "study ended"
    ROUND_SAMPLED = "round sampled"
    ROUND_COLLECTED = "round collected"
    TRIAL_ADDED = "trial added"
    TRIAL_PROPOSED = "trial proposed"
    TRIAL_MOVED = "trial moved"
    SEGMENT_STARTED = "segment started"
    SEGMENT_ENDED = "segment ended"
    CHECKPOINT = "checkpoint"
    FORECAST = "forecast"
    DECIDED = "decided"
    SCORE_ABSORBED = "score absorbed"
    SCORES_DIFFER = "scores differ"


class LiveView:
    """The view of one study that is cached in memory between transactions.

    Only the transaction that holds the study's lock may use the view. The view remembers the id of
    the last event or report that it has applied, so that a refresh reads only newer rows.

    Attributes:
        study: The study as policies see it.
        now: Seconds since the study began, at the newest transaction.
    """

    def __init__(self, goal: Goal) -> None:
        self.study = Study(goal)
        by_trial(self.study)  # before the first event: the index depends on the order of events
        self.now = 0.0
        self._last = 0
        self._started: dict[int, datetime] = {}
        """Start times of the newest segments that have not reported yet, by trial."""

    def refresh(self, connection: Connection, study_id: int) -> None:
        """Applies the study's events and reports since the last refresh to the view.

        The caller's transaction must hold the study's lock.
        """
        after = self._last
        happened = connection.execute(
            select(events.c.id, events.c.kind, events.c.trial, events.c.data, events.c.at)
            .where(events.c.study_id == study_id, events.c.id > after)
            .order_by(events.c.id)
        ).all()
        reported = connection.execute(
            select(
                reports.c.id,
                reports.c.trial,
                reports.c.step,
                reports.c.value,
                reports.c.seconds,
                reports.c.at,
            )
            .where(reports.c.study_id == study_id, reports.c.id > after)
            .order_by(reports.c.id)
        ).all()
        rows: list[tuple[int, Any]] = [(row.id, row) for row in (*happened, *reported)]
        rows.sort(key=lambda item: item[0])
        for number, row in rows:
            if hasattr(row, "kind"):
                _fold(self.study, row.kind, row.trial, row.data)
                if row.kind == EventKind.SEGMENT_STARTED:
                    self._started[row.trial] = row.at
            else:
                self._time_start(row)
                self.study.record(row.trial, row.step, row.value, row.seconds)
            self._last = number
        new_forecasts = {row.trial for row in happened if row.kind == EventKind.FORECAST}
        self._read_forecasts(connection, study_id, new_forecasts)

    def _time_start(self, report: Row[Any]) -> None:
        """Records the start-up time of a segment if a report is the first report of the segment.

        The start-up time is the time from the start of the segment to its first training step.
        """
        if (began := self._started.pop(report.trial, None)) is not None:
            taken = (report.at - began).total_seconds() - report.seconds
            self.study.trials[report.trial].startup_seconds = max(taken, 0.0)

    def _read_forecasts(
        self, connection: Connection, study_id: int, new_forecasts: set[int]
    ) -> None:
        """Reads the newest forecasts of the given unfinished trials into the view."""
        trials = self.study.trials
        active = [number for number in new_forecasts if not trials[number].state.is_finished]
        if not active:
            return
        rows = connection.execute(
            select(forecasts.c.trial, forecasts.c.data).where(
                forecasts.c.study_id == study_id, forecasts.c.trial.in_(active)
            )
        )
        for row in rows:
            self.study.set_forecast(row.trial, to_forecast(row.data))


def to_forecast(data: Mapping[str, Any]) -> QuantileForecast | None:
    """Parses the data of a `CurveForecast`; returns None if no forecast could be computed.

    Raises:
        ValueError: The data does not have the shape of a forecast.
    """
    return QuantileForecast.from_dict(data) if data["steps"] else None


def _fold(study: Study, kind: str, trial: int | None, data: Mapping[str, Any]) -> None:
    if trial is None:
        return
    match kind:
        case EventKind.TRIAL_ADDED:
            added = study.add()
            added.is_retraining = data.get("is_retraining", False)
            if (parent := data.get("parent")) is not None:
                added.checkpoint_step = study.trials[parent].checkpoint_step
        case EventKind.TRIAL_PROPOSED:
            study.trials[trial].params = data["params"]
        case EventKind.TRIAL_MOVED:
            study.move(trial, TrialState(data["state"]), decided_step=data.get("decided_step"))
            study.trials[trial].group = data.get("group", 0)
        case EventKind.SEGMENT_STARTED:
            width = Fraction(str(data.get("width", 1)))
            study.start(trial, width=width, group=study.trials[trial].group)
        case EventKind.SEGMENT_ENDED:
            study.end_segment(trial)
        case EventKind.CHECKPOINT:
            study.trials[trial].checkpoint_step = max(
                study.trials[trial].checkpoint_step, data["step"]
            )
