"""The ledger's side of reconciling: what it has open, and how that is put right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Select, and_, delete, func, or_, select

from hpo_ops.core.leftovers import LedgerPart, LedgerSegment, LedgerStudy, StrayLease
from hpo_ops.gateway.http.authentication import Right
from hpo_ops.gateway.services import study_transitions
from hpo_ops.gateway.services.studies import Studies
from hpo_ops.ledger import Ledger, StudyState
from hpo_ops.ledger.schema import leases, segments, studies
from hpo_ops.protocol import Cause, Outcome, SegmentResult


def read_ledger(
    ledger: Ledger,
    asked: Sequence[str],
    *,
    may_read: Right,
    may_edit: Right,
    is_operator: bool = True,
) -> LedgerPart:
    """What is open, as far as the asker may see it. Takes no lock.

    Args:
        ledger: The ledger.
        asked: Segments to tell about, whether or not they are open.
        may_read: Whether the asker may see a study.
        may_edit: Whether the asker may change it.
        is_operator: Whether the asker may know which of the segments exist at all. To others a
            segment that does not exist is hidden like one that they may not see.
    """
    with ledger.engine.connect() as connection:
        open_studies = connection.execute(
            select(
                studies,
                studies.c.key.label("study_key"),
                _seconds_since(studies.c.at).label("seconds"),
            )
            .where(studies.c.state != StudyState.ENDED.value)
            .order_by(studies.c.id)
        ).all()
        known_segments = connection.execute(_segments(asked)).all()
        stray = connection.execute(_stray_leases()).all()
        namespace = studies.c.config[("pod", "namespace")].as_string()
        namespaces = connection.execute(
            select(
                namespace.label("namespace"),
                studies.c.dag_id,
                studies.c.run_id,
                studies.c.owner,
            ).where(namespace.is_not(None))
        ).all()
    seen = [row for row in known_segments if may_read(row)]
    shown = {row.id for row in seen}
    exist = {row.id for row in known_segments}
    return LedgerPart(
        studies=[
            LedgerStudy(
                id=row.id,
                key=row.study_key,
                dag_id=row.dag_id,
                run_id=row.run_id,
                state=row.state,
                seconds=float(row.seconds),
                may_edit=may_edit(row),
            )
            for row in open_studies
            if may_read(row)
        ],
        segments=[_segment(row, may_edit) for row in seen],
        leases=[
            StrayLease(
                segment=row.segment_id,
                study_id=row.study_id,
                study=row.study_key,
                trial=row.trial,
                may_edit=may_edit(row),
            )
            for row in stray
            if may_read(row)
        ],
        namespaces=sorted({row.namespace for row in namespaces if may_read(row)}),
        hidden=sorted((exist if is_operator else set(asked)) - shown),
    )


def _seconds_since(moment: Any) -> Any:
    return func.extract("epoch", func.now() - moment)


def _segments(asked: Sequence[str]) -> Select[Any]:
    return (
        select(
            segments.c.id,
            segments.c.study_id,
            segments.c.trial,
            segments.c.runner,
            studies.c.key.label("study_key"),
            studies.c.run_id,
            studies.c.dag_id,
            studies.c.owner,
            studies.c.state.label("study_state"),
            studies.c.config[("pod", "namespace")].as_string().label("namespace"),
            _seconds_since(segments.c.at).label("seconds"),
            _seconds_since(segments.c.ended_at).label("ended_seconds"),
            func.coalesce(leases.c.expires_at > func.now(), False).label("has_lease"),
        )
        .join(studies, studies.c.id == segments.c.study_id)
        .join(leases, leases.c.segment_id == segments.c.id, isouter=True)
        .where(or_(segments.c.outcome.is_(None), segments.c.id.in_(asked)))
        .order_by(segments.c.study_id, segments.c.trial, segments.c.at)
    )


def _segment(row: Row[Any], may_edit: Right) -> LedgerSegment:
    return LedgerSegment(
        id=row.id,
        study_id=row.study_id,
        study=row.study_key,
        study_state=row.study_state,
        trial=row.trial,
        runner=row.runner,
        namespace=row.namespace,
        seconds=float(row.seconds),
        ended_seconds=None if row.ended_seconds is None else float(row.ended_seconds),
        has_lease=row.has_lease,
        may_edit=may_edit(row),
    )


def _open_segment_of_lease() -> Any:
    return and_(segments.c.id == leases.c.segment_id, segments.c.outcome.is_(None))


def _stray_leases() -> Select[Any]:
    return (
        select(
            leases,
            studies.c.key.label("study_key"),
            studies.c.run_id,
            studies.c.dag_id,
            studies.c.owner,
        )
        .join(studies, studies.c.id == leases.c.study_id)
        .join(segments, _open_segment_of_lease(), isouter=True)
        .where(segments.c.id.is_(None))
        .order_by(leases.c.study_id, leases.c.trial)
    )


def close_study(service: Studies, study_id: int, reason: str) -> None:
    """Closes a study whose DAG run will not: open segments end, leases are free."""
    service.stop(study_id, reason)
    service.end(study_id, {})


def lose_segment(ledger: Ledger, study_id: int, segment_id: str, reason: str) -> bool:
    """Finishes a segment as preempted, unless someone has given a sign of life meanwhile.

    Returns:
        Whether it is over now.
    """
    with ledger.study(study_id) as session:
        segment = session.segment(segment_id)
        if segment is None:
            raise LookupError(f"study {session.record.key} has no segment {segment_id}")
        if segment.outcome is not None:
            return True
        is_alive = session.connection.execute(
            select(leases.c.segment_id).where(
                leases.c.segment_id == segment_id, leases.c.expires_at > func.now()
            )
        ).first()
        if is_alive and session.record.state is not StudyState.ENDED:
            return False
        lost = SegmentResult(outcome=Outcome.PREEMPTED, reason=reason, cause=Cause.TASK_LOST)
        study_transitions.end_segment(session, segment, lost)
        return True


def free_leases(ledger: Ledger, study_id: int) -> list[str]:
    """Gives back the leases of a study's segments that are over; returns their ids."""
    with ledger.study(study_id) as session:
        is_open = select(segments.c.id).where(_open_segment_of_lease()).exists()
        freed = session.connection.execute(
            delete(leases)
            .where(leases.c.study_id == study_id, ~is_open)
            .returning(leases.c.segment_id)
        )
        return sorted(freed.scalars())
