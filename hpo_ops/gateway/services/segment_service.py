"""Records what agents send about segments: reports, forecasts, checkpoints, heartbeats, ends.

A segment is one uninterrupted execution of a trial; its agent is the process beside the training.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hpo_ops.checkpoints.session_policy import StoreAccess
from hpo_ops.client import SegmentReceipt
from hpo_ops.core import Action, Decision
from hpo_ops.gateway.services import _allocation, _score_cache, _study_transitions
from hpo_ops.gateway.services._saved_checkpoints import checkpoint_uri
from hpo_ops.gateway.services._trial_result_message import trial_result
from hpo_ops.ledger import Ledger, StudyState, StudyTransaction
from hpo_ops.ledger.forecast_rows import record_forecast
from hpo_ops.ledger.rows import SegmentRow
from hpo_ops.protocol import (
    Checkpoint,
    Control,
    CurveForecast,
    Provenance,
    Report,
    SegmentResult,
)

logger = logging.getLogger(__name__)


class SegmentOverError(PermissionError):
    """The segment has ended in the ledger, so that messages of its agent are refused."""


@dataclass(frozen=True)
class SegmentService:
    """Records the messages of agents about segments. All methods are idempotent."""

    ledger: Ledger

    def report(self, segment_id: str, new: Sequence[Report]) -> Control:
        """Records new reports of a segment, and returns the requested action for its trial.

        Every call, also without reports, is a heartbeat that extends the segment's lease. If the
        lease has expired and no new lease is available, the action is to pause.

        Raises:
            SegmentOverError: The segment has ended.
        """
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            segment = _require_open(session, segment_id)
            refusal = _extend_lease(session, segment)
            _study_transitions.take_reports(session, number, segment_id, new)
            decision = _study_transitions.decide(session, segment, has_news=bool(new))
            if decision.action is Action.CONTINUE:
                decision = _allocation.resize(session, segment) or decision
            if refusal and decision.action is Action.CONTINUE:
                decision = Decision(
                    Action.PAUSE, f"its lease expired without a heartbeat, and {refusal}"
                )
        return Control(action=decision.action, reason=decision.reason)

    def keep_alive(self, segment_ids: Sequence[str]) -> list[str]:
        """Extends the leases of open segments whose pods exist, in place of agents' heartbeats.

        Args:
            segment_ids: Ids of the segments whose pods exist in the cluster.

        Returns:
            The ids of the segments to terminate: segments that are unknown or have ended, and
            segments whose study is over or paused.
        """
        over = []
        for segment_id in segment_ids:
            try:
                study_id, _ = self.ledger.study_of_segment(segment_id)
            except LookupError:
                over.append(segment_id)
                continue
            with self.ledger.study(study_id) as session:
                segment = session.segments.find(segment_id)
                if segment is not None and segment.is_open:
                    _extend_lease(session, segment)
                    if session.record.state in (StudyState.RUNNING, StudyState.RETRAINING):
                        continue
                over.append(segment_id)
        return over

    def curve(self, segment_id: str) -> list[tuple[int, float]]:
        """Returns the learning curve of a segment's trial as pairs of step and value.

        The curve includes the reports of earlier segments of the trial.

        Raises:
            SegmentOverError: The segment has ended.
        """
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            _require_open(session, segment_id)
            return session.reports.curve(number)

    def forecast(self, segment_id: str, made: CurveForecast) -> None:
        """Records a forecast of a trial's learning curve, for the decision at the forecast's step.

        Raises:
            SegmentOverError: The segment has ended.
        """
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            _require_open(session, segment_id)
            record_forecast(session, number, made)

    def checkpoint(self, segment_id: str, checkpoint: Checkpoint) -> None:
        """Records that a checkpoint of a segment's trial is complete in the store.

        The recorded URI is built from the study, the trial and the step. The URI in the agent's
        message is ignored: a forged URI could make tasks read, copy or delete objects of another
        study.

        Raises:
            SegmentOverError: The segment has ended.
        """
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            _require_open(session, segment_id)
            uri = checkpoint_uri(session.record, number, checkpoint.step)
            session.checkpoints.add(
                number, segment_id, replace(checkpoint, uri=uri), replaces=True
            )

    def store_access(self, segment_id: str) -> StoreAccess:
        """Returns which parts of the store the agent of an open segment may read and write.

        Raises:
            SegmentOverError: The segment has ended.
        """
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            segment, record = _require_open(session, segment_id), session.record
            elsewhere = _score_cache.restore_from(session, number, segment.from_step)
        return StoreAccess(
            store=record.config.checkpoints.store or "",
            writable=[f"{record.key}/trials/{number}", f"{record.key}/logs/{number}"],
            readable=[record.key, *([elsewhere] if elsewhere else [])],
            objects=[record.archive] if record.archive else [],
        )

    def finish(
        self,
        segment_id: str,
        result: SegmentResult,
        last: Sequence[Report] = (),
        provenance: Provenance | None = None,
        *,
        is_agent: bool = False,
        is_fallback: bool = False,
    ) -> SegmentReceipt:
        """Records a segment's result and its last reports, unless a result is already on record.

        After the first result, a task may still add provenance, and the segment's own agent may
        repeat the result, which has no effect.

        Args:
            segment_id: The segment.
            result: How the segment ended.
            last: The segment's last reports.
            provenance: The code, image, packages and hardware that the segment was trained with.
            is_agent: Whether the sender is the segment's own agent and not a task.
            is_fallback: Whether the result is only what the platform knows about the segment, sent
                in case the agent could not report the end.

        Returns:
            The result on record, and the trial's result if the trial has finished.

        Raises:
            SegmentOverError: The agent's result differs from the result on record.
        """
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            segment = session.segments.find(segment_id)
            if segment is None:
                return SegmentReceipt(result=result)
            counted = segment.result
            if is_agent and counted is not None and not _is_same(result, counted):
                raise SegmentOverError(f"segment {segment_id} has ended")
            is_repetition = is_agent and counted is not None
            if provenance is not None and provenance.known() and not is_repetition:
                known = provenance.over(segment.provenance)
                session.segments.record_provenance(segment_id, known)
            if counted is None:
                _study_transitions.take_reports(session, number, segment_id, last)
                if last:
                    _study_transitions.decide(session, segment, has_news=True)
                if is_fallback:
                    logger.info("segment %s: its agent reported no end", segment_id)
                row = _study_transitions.end_segment(session, segment, result)
            else:
                if not is_fallback and not _is_same(result, counted):
                    logger.warning(
                        "segment %s has %s already; a later result, %s, is ignored: %s",
                        segment_id,
                        counted.outcome,
                        result.outcome,
                        result.reason,
                    )
                row = session.trials.get(number)
                result = counted
            is_done = row.state.is_finished
            return SegmentReceipt(result=result, score=trial_result(row) if is_done else None)


def _extend_lease(session: StudyTransaction, segment: SegmentRow) -> str | None:
    """Extends a segment's lease, or takes a new lease if the old lease has expired.

    Returns:
        None if the segment has a lease afterwards; otherwise why no lease is available.
    """
    if session.leases.renew(segment.id):
        return None
    return session.leases.take(trial=segment.trial, segment_id=segment.id, width=segment.units)


def _is_same(said: SegmentResult, counted: SegmentResult) -> bool:
    """Checks whether a segment's reported result equals its recorded result, apart from the cause.

    The causes are not compared, since older segments have no cause on record.
    """
    return replace(said, cause=counted.cause) == counted


def _require_open(session: StudyTransaction, segment_id: str) -> SegmentRow:
    segment = session.segments.find(segment_id)
    if segment is None or not segment.is_open:
        raise SegmentOverError(f"segment {segment_id} has ended")
    return segment
