"""Queries of the reconciler for open studies, open segments and leases without an open segment.

The reconciler compares these records with Airflow and the cluster after crashes. Every record
contains the DAG run and the owner of its study, from which the gateway derives who may see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Label,
    Row,
    and_,
    case,
    delete,
    func,
    or_,
    select,
)

from hpo_ops.config.runner_registry import all_runners
from hpo_ops.ledger._schema import leases, segments, studies
from hpo_ops.ledger._study_record import StudyState


@dataclass(frozen=True, kw_only=True)
class OpenStudy:
    """A study that has not ended.

    Attributes:
        key: Unique name of the study in the checkpoint store and in Optuna.
        seconds: Seconds since the study started.
    """

    id: int
    key: str
    dag_id: str
    run_id: str
    owner: str | None
    state: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class SegmentOfStudy:
    """A segment (one uninterrupted execution of a trial) with its study.

    Attributes:
        namespace: Namespace of the runner's resources, such as pods; None for the default.
        seconds: Seconds since the segment started.
        ended_seconds: Seconds since the segment ended; None while the segment is open.
        has_lease: Whether the segment holds a lease that has not expired.
    """

    id: str
    study_id: int
    study_key: str
    study_state: str
    dag_id: str
    run_id: str
    owner: str | None
    trial: int
    runner: str
    namespace: str | None
    seconds: float
    ended_seconds: float | None
    has_lease: bool


@dataclass(frozen=True, kw_only=True)
class StrayLeaseOfStudy:
    """A stray lease, whose segment has ended or does not exist, with its study."""

    segment_id: str
    study_id: int
    study_key: str
    dag_id: str
    run_id: str
    owner: str | None
    trial: int


@dataclass(frozen=True, kw_only=True)
class NamespaceOfStudy:
    """A namespace that a study configures for the resources of its runner, such as pods."""

    namespace: str
    dag_id: str
    run_id: str
    owner: str | None


def list_open_studies(connection: Connection) -> list[OpenStudy]:
    """Lists the studies that have not ended, oldest first."""
    rows = connection.execute(
        select(
            studies.c.id,
            studies.c.key,
            studies.c.dag_id,
            studies.c.run_id,
            studies.c.owner,
            studies.c.state,
            _seconds_since(studies.c.at).label("seconds"),
        )
        .where(studies.c.state != StudyState.ENDED.value)
        .order_by(studies.c.id)
    )
    return [OpenStudy(**{**row._mapping, "seconds": float(row.seconds)}) for row in rows]


def list_open_segments(
    connection: Connection, *, segment_ids: Sequence[str]
) -> list[SegmentOfStudy]:
    """Lists all studies' open segments, and the segments with the given ids, open or ended."""
    rows = connection.execute(
        select(
            segments.c.id,
            segments.c.study_id,
            studies.c.key.label("study_key"),
            studies.c.state.label("study_state"),
            studies.c.dag_id,
            studies.c.run_id,
            studies.c.owner,
            segments.c.trial,
            segments.c.runner,
            _namespace(),
            _seconds_since(segments.c.at).label("seconds"),
            _seconds_since(segments.c.ended_at).label("ended_seconds"),
            func.coalesce(leases.c.expires_at > func.now(), False).label("has_lease"),
        )
        .join(studies, studies.c.id == segments.c.study_id)
        .join(leases, leases.c.segment_id == segments.c.id, isouter=True)
        .where(or_(segments.c.outcome.is_(None), segments.c.id.in_(segment_ids)))
        .order_by(segments.c.study_id, segments.c.trial, segments.c.at)
    )
    return [_segment(row) for row in rows]


def _segment(row: Row[Any]) -> SegmentOfStudy:
    ended = row.ended_seconds
    durations = {
        "seconds": float(row.seconds),
        "ended_seconds": None if ended is None else float(ended),
    }
    return SegmentOfStudy(**{**row._mapping, **durations})


def list_stray_leases(connection: Connection) -> list[StrayLeaseOfStudy]:
    """Lists leases whose segment has ended or does not exist."""
    rows = connection.execute(
        select(
            leases.c.segment_id,
            leases.c.study_id,
            studies.c.key.label("study_key"),
            studies.c.dag_id,
            studies.c.run_id,
            studies.c.owner,
            leases.c.trial,
        )
        .join(studies, studies.c.id == leases.c.study_id)
        .join(segments, _is_open_segment_of_lease(), isouter=True)
        .where(segments.c.id.is_(None))
        .order_by(leases.c.study_id, leases.c.trial)
    )
    return [StrayLeaseOfStudy(**row._mapping) for row in rows]


def list_namespaces(connection: Connection) -> list[NamespaceOfStudy]:
    """Lists the namespaces that open and ended studies configure for their runner's resources."""
    namespace = _namespace()
    rows = connection.execute(
        select(namespace, studies.c.dag_id, studies.c.run_id, studies.c.owner).where(
            namespace.is_not(None)
        )
    )
    return [NamespaceOfStudy(**row._mapping) for row in rows]


def has_live_lease(connection: Connection, segment_id: str) -> bool:
    """Returns whether a segment holds a lease that has not expired."""
    found = connection.execute(
        select(leases.c.segment_id).where(
            leases.c.segment_id == segment_id, leases.c.expires_at > func.now()
        )
    )
    return found.first() is not None


def release_stray_leases(connection: Connection, study_id: int) -> list[str]:
    """Deletes the stray leases of a study and returns the segment ids of the deleted leases.

    The caller's transaction must hold the study's lock, so that no segment starts concurrently.
    """
    is_open = select(segments.c.id).where(_is_open_segment_of_lease()).exists()
    released = connection.execute(
        delete(leases)
        .where(leases.c.study_id == study_id, ~is_open)
        .returning(leases.c.segment_id)
    )
    return sorted(released.scalars())


def _is_open_segment_of_lease() -> ColumnElement[bool]:
    return and_(segments.c.id == leases.c.segment_id, segments.c.outcome.is_(None))


def _namespace() -> Label[str]:
    """Returns an SQL expression for the namespace in a study's configuration; NULL if not set."""
    runner = studies.c.config["runner"].as_string()
    named = [
        (runner == name, studies.c.config[found.namespace_key].as_string())
        for name, found in all_runners().items()
        if found.namespace_key
    ]
    namespace: Label[str] = case(*named).label("namespace")
    return namespace


def _seconds_since(moment: ColumnElement[datetime]) -> ColumnElement[int]:
    return func.extract("epoch", func.now() - moment)
