"""Read-only queries for trials: lists, counts by state, the best trial, and decisions.

In a study with folds, each fold is a trial of its own in these queries, and so is the retraining
(the training of the best hyperparameters on all data).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    and_,
    case,
    cast,
    column,
    exists,
    func,
    not_,
    or_,
    select,
)

from hpo_ops.core import Direction, TrialState
from hpo_ops.ledger._schema import decisions, segments, trials
from hpo_ops.ledger.rows import ServedFrom
from hpo_ops.protocol import ParamValue


@dataclass(frozen=True, kw_only=True)
class ListedTrial:
    """A trial with the number and total duration of its segments.

    Attributes:
        number: Number of the trial; in a study with folds, number of the fold.
        reason: Why the trial is in its state, as a sentence for people.
        step: Last reported step.
        value: Best value of the objective; None before the first report.
        best_step: Step of the best value.
        metrics: Last reported metrics.
        is_feasible: Whether no violation of a constraint is known.
        served: Source trial whose reports the score cache replayed; None if none were replayed.
        segments: Number of segments (uninterrupted executions) of the trial.
        seconds: Total duration of the segments; None before the first segment.
    """

    number: int
    state: TrialState
    reason: str
    step: int
    value: float | None
    best_step: int | None
    params: dict[str, ParamValue]
    seed: int
    metrics: dict[str, float]
    is_feasible: bool
    served: ServedFrom | None
    segments: int
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class BestTrial:
    """The trial with the best value of the objective.

    Attributes:
        best_step: Step of the best value.
        served: Source trial whose reports the score cache replayed; None if none were replayed.
    """

    number: int
    value: float
    best_step: int
    params: Mapping[str, ParamValue]
    served: ServedFrom | None


@dataclass(frozen=True, kw_only=True)
class RecordedDecision:
    """A policy's decision about a trial at one step, with its reason."""

    step: int
    action: str
    reason: str
    at: datetime


def list_trials(
    connection: Connection, study_id: int, *, numbers: range | None = None
) -> list[ListedTrial]:
    """Lists the trials of a study, sorted by number.

    Args:
        connection: An open connection to the ledger.
        study_id: Id of the study.
        numbers: Numbers of the trials to list; None lists all trials.
    """
    is_wanted = [trials.c.study_id == study_id]
    is_wanted_segment = [segments.c.study_id == study_id]
    if numbers is not None:
        is_wanted.append(trials.c.number.between(numbers.start, numbers.stop - 1))
        is_wanted_segment.append(segments.c.trial.between(numbers.start, numbers.stop - 1))
    seconds = func.extract("epoch", func.coalesce(segments.c.ended_at, func.now()) - segments.c.at)
    totals = (
        select(
            segments.c.trial,
            func.count().label("segments"),
            func.sum(seconds).label("seconds"),
        )
        .where(*is_wanted_segment)
        .group_by(segments.c.trial)
        .subquery()
    )
    rows = connection.execute(
        select(*_LISTED, totals.c.segments, totals.c.seconds)
        .join(totals, totals.c.trial == trials.c.number, isouter=True)
        .where(*is_wanted)
        .order_by(trials.c.number)
    )
    return [_listed(row) for row in rows]


_LISTED = (
    trials.c.number,
    trials.c.state,
    trials.c.reason,
    trials.c.step,
    trials.c.value,
    trials.c.best_step,
    trials.c.params,
    trials.c.seed,
    trials.c.metrics,
    trials.c.violations,
    trials.c.served,
)


def _listed(row: Sequence[Any]) -> ListedTrial:
    # Unpacked by position, which takes half the time: a study may have thousands of trials.
    number, state, reason, step, value, best_step, params, seed, *rest = row
    metrics, violations, served, segment_count, seconds = rest
    return ListedTrial(
        number=number,
        state=TrialState(state),
        reason=reason,
        step=step,
        value=value,
        best_step=best_step,
        params=params or {},
        seed=seed,
        metrics=metrics or {},
        is_feasible=all(violation <= 0 for violation in violations or ()),
        served=ServedFrom(**served) if served else None,
        segments=segment_count or 0,
        seconds=None if seconds is None else float(seconds),
    )


def find_best_trial(
    connection: Connection, study_id: int, direction: Direction
) -> BestTrial | None:
    """Returns the feasible trial with the best value, or None if no feasible trial has a value.

    Of trials with equal values, the trial with the lowest number is returned.
    """
    value = trials.c.value
    best_first = value.desc() if direction is Direction.MAXIMIZE else value.asc()
    row = connection.execute(
        select(
            trials.c.number, trials.c.value, trials.c.best_step, trials.c.params, trials.c.served
        )
        .where(trials.c.study_id == study_id, value.is_not(None), _is_feasible())
        .order_by(best_first, trials.c.number)
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    served = ServedFrom(**row.served) if row.served else None
    return BestTrial(**{**row._mapping, "served": served})


def list_final_values(connection: Connection, study_id: int) -> list[float | None]:
    """Lists the best value of each finished trial of a study, sorted by the trials' end times.

    The entry of a trial that is infeasible or has no report is None.
    """
    rows = connection.execute(
        select(trials.c.value, _is_feasible().label("is_feasible"))
        .where(trials.c.study_id == study_id, trials.c.ended_at.is_not(None))
        .order_by(trials.c.ended_at, trials.c.number)
    )
    return [row.value if row.is_feasible else None for row in rows]


def _is_feasible() -> ColumnElement[bool]:
    """Returns the SQL condition that a trial has no known violation of a constraint."""
    worst = func.coalesce(
        select(func.max(cast(column("value"), Double)))
        .select_from(func.json_array_elements_text(trials.c.violations).table_valued("value"))
        .scalar_subquery(),
        0.0,
    )
    return or_(trials.c.violations.is_(None), worst <= 0.0)


def count_trials_by_state(connection: Connection, study_id: int) -> dict[TrialState, int]:
    """Counts the trials of a study by state.

    A RUNNING trial without an open segment is counted as WAITING.
    """
    has_open_segment = exists().where(
        segments.c.study_id == trials.c.study_id,
        segments.c.trial == trials.c.number,
        segments.c.outcome.is_(None),
    )
    is_queued = and_(trials.c.state == TrialState.RUNNING.value, not_(has_open_segment))
    shown = case((is_queued, TrialState.WAITING.value), else_=trials.c.state).label("shown")
    rows = connection.execute(
        select(shown, func.count()).where(trials.c.study_id == study_id).group_by(shown)
    )
    return {TrialState(state): count for state, count in rows}


def count_served_trials(connection: Connection, study_id: int, *, fold_count: int) -> int:
    """Counts the trials of a study into which the score cache has replayed reports.

    A trial with folds counts once, if the score cache has served at least one of its folds.
    """
    trial = trials.c.number // fold_count
    found = connection.execute(
        select(func.count(trial.distinct())).where(
            trials.c.study_id == study_id, trials.c.served.is_not(None)
        )
    ).scalar_one()
    return int(found)


def list_decisions(
    connection: Connection, study_id: int, *, numbers: range
) -> list[RecordedDecision]:
    """Lists the decisions about the trials with the given numbers, oldest decision first."""
    rows = connection.execute(
        select(decisions.c.step, decisions.c.action, decisions.c.reason, decisions.c.at)
        .where(
            decisions.c.study_id == study_id,
            decisions.c.trial.between(numbers.start, numbers.stop - 1),
        )
        .order_by(decisions.c.id)
    )
    return [RecordedDecision(**row._mapping) for row in rows]
