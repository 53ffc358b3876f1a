"""Reads and writes the reports (metrics of one trial at one step) of one study."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert as upsert

from hpo_ops.ledger import _schema
from hpo_ops.ledger._study_history import StudyHistory
from hpo_ops.protocol import Report


class ReportTable:
    """The reports of one study, within one transaction that holds the study's lock.

    Args:
        history: The event log of the study.
        metric: Name of the study's objective, whose values form the learning curve.
    """

    def __init__(self, history: StudyHistory, *, metric: str) -> None:
        self._history = history
        self._metric = metric
        self._connection = history.connection
        self._study_id = history.study_id

    def add(self, trial: int, segment_id: str, reports: Sequence[Report]) -> None:
        """Inserts reports of a trial, except for steps that the trial has already reported.

        Args:
            trial: Number of the trial.
            segment_id: Id of the segment that sent the reports.
            reports: The reports. Each report must contain a value of the objective.
        """
        if not reports:
            return
        self._history.is_changed = True
        self._connection.execute(
            upsert(_schema.reports).on_conflict_do_nothing(),
            [
                {
                    "study_id": self._study_id,
                    "trial": trial,
                    "step": report.step,
                    "segment_id": segment_id,
                    "value": report.metrics[self._metric],
                    "metrics": report.metrics,
                    "seconds": report.seconds,
                }
                for report in reports
            ],
        )

    def curve(self, trial: int) -> list[tuple[int, float]]:
        """Returns the learning curve of a trial as pairs of step and objective value, by step."""
        return read_curve(self._connection, self._study_id, trial)


def read_curve(connection: Connection, study_id: int, trial: int) -> list[tuple[int, float]]:
    """Returns the learning curve of a trial as pairs of step and objective value, by step."""
    table = _schema.reports
    rows = connection.execute(
        select(table.c.step, table.c.value)
        .where(table.c.study_id == study_id, table.c.trial == trial)
        .order_by(table.c.step)
    )
    return [(row.step, row.value) for row in rows]
