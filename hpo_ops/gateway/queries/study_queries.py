"""What people see of studies: progress, trials, the best, events. Reads only, takes no lock."""

from __future__ import annotations

from collections import Counter
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

from hpo_ops.client import Best, Progress, Served, TrialSummary
from hpo_ops.core import Direction, TrialState
from hpo_ops.core.pareto import pareto_front
from hpo_ops.gateway.queries.fold_views import Folded
from hpo_ops.ledger import Ledger, StudyRecord
from hpo_ops.ledger.schema import (
    checkpoints,
    decisions,
    events,
    reports,
    segments,
    studies,
    trials,
)


def progress(ledger: Ledger, record: StudyRecord) -> Progress:
    """How a study stands."""
    folds = record.config.folds
    with ledger.engine.connect() as connection:
        whole = None if folds is None else read_folded(connection, record)
        begun = _counts(connection, record)
        # Folds of one trial that were served are one trial that was.
        number = trials.c.number // record.config.fold_count
        served = connection.execute(
            select(func.count(number.distinct())).where(
                trials.c.study_id == record.id, trials.c.served.is_not(None)
            )
        ).scalar_one()
        seconds = connection.execute(
            select(
                func.extract("epoch", func.coalesce(studies.c.ended_at, func.now()) - studies.c.at)
            ).where(studies.c.id == record.id)
        ).scalar_one()
    counts = begun if whole is None else Counter(trial.state.value for trial in whole.trials)
    return Progress(
        id=record.id,
        name=record.name,
        run_id=record.run_id,
        key=record.key,
        dag_id=record.dag_id,
        owner=record.owner,
        state=record.state,
        reason=record.reason,
        metric=record.config.objective.name,
        direction=record.config.objective.direction.value,
        trials=record.config.trials,
        mapped_trials=record.config.mapped_trials,
        counts={state.value: counts.get(state.value, 0) for state in TrialState},
        seconds=float(seconds),
        runner=record.config.runner,
        store=record.config.checkpoints.store or "",
        best=best(ledger, record) if whole is None else whole.best,
        served=served,
        folds=None if folds is None else folds.count,
        begun=sum(begun.values()),
        retraining=record.retraining,
    )


def _counts(connection: Connection, record: StudyRecord) -> dict[str, int]:
    """How many trials are in which state; each fold is one here."""
    has_segment = exists().where(
        segments.c.study_id == trials.c.study_id,
        segments.c.trial == trials.c.number,
        segments.c.outcome.is_(None),
    )
    # A trial that has a place but no container yet waits.
    is_waiting = and_(trials.c.state == TrialState.RUNNING.value, not_(has_segment))
    shown = case((is_waiting, TrialState.WAITING.value), else_=trials.c.state).label("shown")
    rows = connection.execute(
        select(shown, func.count()).where(trials.c.study_id == record.id).group_by(shown)
    )
    return {state: count for state, count in rows}


def read_folded(connection: Connection, record: StudyRecord) -> Folded:
    """A study with folds."""
    return Folded.read(connection, record, _parts(connection, record))


def best(ledger: Ledger, record: StudyRecord) -> Best | None:
    """The trial with the best value, and the best of its checkpoints."""
    maximize = record.config.objective.direction is Direction.MAXIMIZE
    with ledger.engine.connect() as connection:
        if record.config.folds is not None:
            return read_folded(connection, record).best
        order = trials.c.value.desc() if maximize else trials.c.value.asc()
        row = connection.execute(
            select(trials)
            .where(trials.c.study_id == record.id, trials.c.value.is_not(None), is_feasible())
            .order_by(order, trials.c.number)
            .limit(1)
        ).one_or_none()
        if row is None:
            return None
        saved_order = reports.c.value.desc() if maximize else reports.c.value.asc()
        saved = connection.execute(
            select(checkpoints.c.uri, checkpoints.c.step, checkpoints.c.digest, reports.c.value)
            .join(
                reports,
                and_(
                    reports.c.study_id == checkpoints.c.study_id,
                    reports.c.trial == checkpoints.c.trial,
                    reports.c.step == checkpoints.c.step,
                ),
            )
            .where(checkpoints.c.study_id == record.id, checkpoints.c.trial == row.number)
            .order_by(saved_order, checkpoints.c.step)
            .limit(1)
        ).one_or_none()
    published = (record.result or {}).get("best", {}).get("checkpoint_uri")
    return Best(
        trial=row.number,
        value=row.value,
        step=row.best_step,
        params=row.params,
        checkpoint_uri=published or (saved.uri if saved else None),
        checkpoint_step=saved.step if saved else None,
        checkpoint_digest=saved.digest if saved else None,
        checkpoint_value=saved.value if saved else None,
        served=Served.from_dict(row.served) if row.served else None,
    )


def is_feasible() -> ColumnElement[bool]:
    """No constraint is violated, as far as is known."""
    worst = func.coalesce(
        select(func.max(cast(column("value"), Double)))
        .select_from(func.json_array_elements_text(trials.c.violations).table_valued("value"))
        .scalar_subquery(),
        0.0,
    )
    return or_(trials.c.violations.is_(None), worst <= 0.0)


def front(ledger: Ledger, record: StudyRecord) -> list[TrialSummary]:
    """The Pareto front of a study with several metrics; the best trial where there is one."""
    objectives = record.config.objectives
    known = [
        trial
        for trial in trial_summaries(ledger, record)
        if trial.state is TrialState.COMPLETED and trial.is_feasible and trial.value is not None
    ]
    scores = {
        trial.trial: [
            metric.direction.to_score(trial.metrics[metric.name]) for metric in objectives
        ]
        for trial in known
    }
    best_of_all = set(pareto_front(scores))
    return [trial for trial in known if trial.trial in best_of_all]


def kept_checkpoints(ledger: Ledger, record: StudyRecord) -> list[tuple[int, int]]:
    """The best checkpoint of each of the best trials, and the newest of each unfinished one."""
    with ledger.engine.connect() as connection:
        return kept(connection, record)


def kept(connection: Connection, record: StudyRecord) -> list[tuple[int, int]]:
    """The checkpoints to keep, as a transaction sees them."""
    if record.config.folds is not None:
        folded = read_folded(connection, record).kept()
        return sorted({(_owner(record, *saved[:3]), saved.step) for saved in folded})
    maximize = record.config.objective.direction is Direction.MAXIMIZE
    best_first = reports.c.value.desc() if maximize else reports.c.value.asc()
    saved = (
        select(
            checkpoints.c.trial,
            checkpoints.c.step,
            checkpoints.c.uri,
            reports.c.value,
            trials.c.state,
        )
        .join(
            reports,
            and_(
                reports.c.study_id == checkpoints.c.study_id,
                reports.c.trial == checkpoints.c.trial,
                reports.c.step == checkpoints.c.step,
            ),
        )
        .join(
            trials,
            and_(
                trials.c.study_id == checkpoints.c.study_id,
                trials.c.number == checkpoints.c.trial,
            ),
        )
        .where(checkpoints.c.study_id == record.id)
        .order_by(best_first, checkpoints.c.trial, checkpoints.c.step)
    )
    best: dict[int, int] = {}
    newest: dict[int, int] = {}
    for row in connection.execute(saved):
        trial = _owner(record, row.trial, row.step, row.uri)
        if len(best) < record.config.checkpoints.keep:
            best.setdefault(trial, row.step)
        if not TrialState(row.state).is_finished:
            newest[trial] = max(newest.get(trial, 0), row.step)
    return sorted({*best.items(), *newest.items()})


def _owner(record: StudyRecord, trial: int, step: int, uri: str) -> int:
    """The trial whose checkpoint it is: a trial that was served has those of another."""
    place, _, owner = uri.removesuffix(f"/{step}").rpartition("/trials/")
    return int(owner) if place.endswith(f"/{record.key}") and owner.isdecimal() else trial


def trial_summaries(ledger: Ledger, record: StudyRecord) -> list[TrialSummary]:
    """The study's trials, by number."""
    with ledger.engine.connect() as connection:
        if record.config.folds is not None:
            return read_folded(connection, record).trials
        return _parts(connection, record)


def _parts(connection: Connection, record: StudyRecord) -> list[TrialSummary]:
    """What the ledger has as trials, by number; each fold is one here."""
    runs = (
        select(
            segments.c.trial,
            func.count().label("segments"),
            func.sum(
                func.extract(
                    "epoch", func.coalesce(segments.c.ended_at, func.now()) - segments.c.at
                )
            ).label("seconds"),
        )
        .where(segments.c.study_id == record.id)
        .group_by(segments.c.trial)
        .subquery()
    )
    rows = connection.execute(
        select(trials, runs.c.segments, runs.c.seconds)
        .join(runs, runs.c.trial == trials.c.number, isouter=True)
        .where(trials.c.study_id == record.id)
        .order_by(trials.c.number)
    ).all()
    return [
        TrialSummary(
            trial=row.number,
            state=TrialState(row.state),
            reason=row.reason,
            step=row.step,
            value=row.value,
            best_step=row.best_step,
            params=row.params or {},
            segments=row.segments or 0,
            seconds=None if row.seconds is None else float(row.seconds),
            metrics=row.metrics or {},
            is_feasible=all(value <= 0 for value in row.violations or ()),
            served=Served.from_dict(row.served) if row.served else None,
        )
        for row in rows
    ]


def curve(ledger: Ledger, record: StudyRecord, trial: int) -> list[dict[str, Any]]:
    """The reports of a trial, by step; with folds, their mean."""
    with ledger.engine.connect() as connection:
        if record.config.folds is not None:
            return read_folded(connection, record).curve(trial)
        rows = connection.execute(
            select(reports.c.step, reports.c.metrics, reports.c.seconds)
            .where(reports.c.study_id == record.id, reports.c.trial == trial)
            .order_by(reports.c.step)
        )
        return [dict(row._mapping) for row in rows]


def decisions_of(ledger: Ledger, record: StudyRecord, trial: int) -> list[dict[str, Any]]:
    """The decisions on a trial, or on its folds, and their reasons, oldest first."""
    whole = decisions.c.trial // record.config.fold_count
    with ledger.engine.connect() as connection:
        rows = connection.execute(
            select(decisions.c.step, decisions.c.action, decisions.c.reason, decisions.c.at)
            .where(decisions.c.study_id == record.id, whole == trial)
            .order_by(decisions.c.id)
        )
        return [dict(row._mapping) for row in rows]


def happened(
    ledger: Ledger, record: StudyRecord, *, after: int, limit: int
) -> list[dict[str, Any]]:
    """Events after an id, oldest first."""
    with ledger.engine.connect() as connection:
        rows = connection.execute(
            select(events.c.id, events.c.at, events.c.kind, events.c.trial, events.c.data)
            .where(events.c.study_id == record.id, events.c.id > after)
            .order_by(events.c.id)
            .limit(limit)
        )
        return [dict(row._mapping) for row in rows]
