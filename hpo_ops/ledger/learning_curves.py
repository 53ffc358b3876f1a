"""Queries for the reports of one trial, and for the learning curves of several trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from hpo_ops.ledger._schema import reports


@dataclass(frozen=True, kw_only=True)
class RecordedReport:
    """A report: the metrics of one trial at one step, and the seconds that the step took."""

    step: int
    metrics: Mapping[str, float]
    seconds: float


def list_reports(connection: Connection, study_id: int, trial: int) -> list[RecordedReport]:
    """Lists the reports of a trial, sorted by step."""
    rows = connection.execute(
        select(reports.c.step, reports.c.metrics, reports.c.seconds)
        .where(reports.c.study_id == study_id, reports.c.trial == trial)
        .order_by(reports.c.step)
    )
    return [RecordedReport(**row._mapping) for row in rows]


def read_curves(
    connection: Connection, study_id: int, *, numbers: range | None = None
) -> dict[int, dict[int, float]]:
    """Reads the learning curves (the objective's values by step) of a study's trials.

    Args:
        connection: An open connection to the ledger.
        study_id: Id of the study.
        numbers: Numbers of the trials to read; None reads all trials.

    Returns:
        Learning curves by trial number. Trials without reports are left out.
    """
    query = (
        select(reports.c.trial, reports.c.step, reports.c.value)
        .where(reports.c.study_id == study_id)
        .order_by(reports.c.trial, reports.c.step)
    )
    if numbers is not None:
        query = query.where(reports.c.trial.between(numbers.start, numbers.stop - 1))
    curves: dict[int, dict[int, float]] = {}
    for trial, step, value in connection.execute(query):
        curves.setdefault(trial, {})[step] = value
    return curves
