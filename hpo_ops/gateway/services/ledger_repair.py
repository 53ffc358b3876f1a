"""The reconciler's access to the ledger: lists and repairs what a crash may have left behind.

A segment is one uninterrupted execution of a trial. A leftover is, for example, an open segment
without a process or pod, or a lease of resource units whose segment has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpo_ops.core.leftovers import LedgerPart, LedgerSegment, LedgerStudy, StrayLease
from hpo_ops.gateway.services import _study_transitions
from hpo_ops.gateway.services.owned_resource import Right
from hpo_ops.gateway.services.study_service import StudyService
from hpo_ops.ledger import Ledger, StudyState, repair_queries
from hpo_ops.ledger.repair_queries import OpenStudy, SegmentOfStudy, StrayLeaseOfStudy
from hpo_ops.protocol import Cause, Outcome, SegmentResult


def read_ledger(
    ledger: Ledger,
    segment_ids: Sequence[str],
    *,
    may_read: Right,
    may_edit: Right,
    is_operator: bool = True,
) -> LedgerPart:
    """Lists the open studies, open segments and stray leases that the caller may see.

    A stray lease is a lease whose segment has ended or does not exist. No study is locked.

    Args:
        ledger: The ledger.
        segment_ids: Ids of further segments to list, whether or not they are open.
        may_read: Checks whether the caller may see a study.
        may_edit: Checks whether the caller may change a study.
        is_operator: Whether the caller may know which segments exist. For other callers, the
            field `hidden` of the result mixes segments that do not exist with segments that they
            may not see.
    """
    with ledger.connect() as connection:
        studies = repair_queries.list_open_studies(connection)
        segments = repair_queries.list_open_segments(connection, segment_ids=segment_ids)
        leases = repair_queries.list_stray_leases(connection)
        namespaces = repair_queries.list_namespaces(connection)
    visible = [segment for segment in segments if may_read(segment)]
    candidates = {segment.id for segment in segments} if is_operator else set(segment_ids)
    return LedgerPart(
        studies=[_study(study, may_edit) for study in studies if may_read(study)],
        segments=[_segment(segment, may_edit) for segment in visible],
        leases=[_stray_lease(lease, may_edit) for lease in leases if may_read(lease)],
        namespaces=sorted({item.namespace for item in namespaces if may_read(item)}),
        hidden=sorted(candidates - {segment.id for segment in visible}),
    )


def _study(study: OpenStudy, may_edit: Right) -> LedgerStudy:
    return LedgerStudy(
        id=study.id,
        key=study.key,
        dag_id=study.dag_id,
        run_id=study.run_id,
        state=study.state,
        seconds=study.seconds,
        may_edit=may_edit(study),
    )


def _segment(segment: SegmentOfStudy, may_edit: Right) -> LedgerSegment:
    return LedgerSegment(
        id=segment.id,
        study_id=segment.study_id,
        study=segment.study_key,
        study_state=segment.study_state,
        trial=segment.trial,
        runner=segment.runner,
        namespace=segment.namespace,
        seconds=segment.seconds,
        ended_seconds=segment.ended_seconds,
        has_lease=segment.has_lease,
        may_edit=may_edit(segment),
    )


def _stray_lease(lease: StrayLeaseOfStudy, may_edit: Right) -> StrayLease:
    return StrayLease(
        segment=lease.segment_id,
        study_id=lease.study_id,
        study=lease.study_key,
        trial=lease.trial,
        may_edit=may_edit(lease),
    )


def close_study(studies: StudyService, study_id: int, reason: str) -> None:
    """Ends a study whose DAG run is over without having ended the study.

    Open segments end, unfinished trials are pruned, and leases are released.
    """
    studies.stop(study_id, reason)
    studies.end(study_id, {})


def lose_segment(ledger: Ledger, study_id: int, segment_id: str, reason: str) -> bool:
    """Ends a segment as preempted, unless its lease is still valid because of a heartbeat.

    In a study that has ended, the segment ends even if its lease is valid.

    Returns:
        True if the segment has ended, by this call or before; False if it has not ended.

    Raises:
        LookupError: The study has no such segment.
    """
    with ledger.study(study_id) as session:
        segment = session.segments.find(segment_id)
        if segment is None:
            raise LookupError(f"study {session.record.key} has no segment {segment_id}")
        if segment.outcome is not None:
            return True
        is_alive = repair_queries.has_live_lease(session.connection, segment_id)
        if is_alive and session.record.state is not StudyState.ENDED:
            return False
        lost = SegmentResult(outcome=Outcome.PREEMPTED, reason=reason, cause=Cause.TASK_LOST)
        _study_transitions.end_segment(session, segment, lost)
        return True


def free_leases(ledger: Ledger, study_id: int) -> list[str]:
    """Releases a study's stray leases (of segments that have ended or do not exist).

    Returns:
        The ids of the segments whose leases were released.
    """
    with ledger.study(study_id) as session:
        return repair_queries.release_stray_leases(session.connection, study_id)
