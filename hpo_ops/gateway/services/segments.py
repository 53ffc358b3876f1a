"""What the gateway does for agents: reports, checkpoints and ends of segments."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from hpo_ops.checkpoints.session_policy import StoreAccess
from hpo_ops.client import SegmentReceipt, Served, TrialResult
from hpo_ops.core import Action, Decision
from hpo_ops.gateway.services import allocation, score_cache, study_transitions
from hpo_ops.gateway.services.saved_checkpoints import checkpoint_uri
from hpo_ops.ledger import Ledger, StudyState, StudyTransaction
from hpo_ops.ledger.forecast_rows import record_forecast
from hpo_ops.ledger.rows import SegmentRow, TrialRow
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
    """The segment has ended for the ledger: its agent has no business any more."""


@dataclass(frozen=True)
class Segments:
    """The life of segments. Every call is one transaction and safe to repeat."""

    ledger: Ledger

    def report(self, segment_id: str, new: Sequence[Report]) -> Control:
        """Takes reports in and says what the trial is to do."""
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            segment = _require_open(session, segment_id)
            refusal = self._keep_lease(session, segment)
            study_transitions.take_reports(session, number, segment_id, new)
            decision = study_transitions.decide(session, segment, has_news=bool(new))
            if decision.action is Action.CONTINUE:
                decision = allocation.resize(session, segment) or decision
            if refusal and decision.action is Action.CONTINUE:
                decision = Decision(Action.PAUSE, f"its lease has expired, and {refusal}")
        return Control(action=decision.action, reason=decision.reason)

    def _keep_lease(self, session: StudyTransaction, segment: SegmentRow) -> str | None:
        """Renews a segment's lease, or takes one anew where it expired meanwhile.

        Returns:
            Why there is none to be had any more; None where all is well.
        """
        if session.leases.renew(segment.id):
            return None
        return session.leases.take(trial=segment.trial, segment_id=segment.id, width=segment.units)

    def keep_alive(self, segment_ids: Sequence[str]) -> list[str]:
        """Renews the leases of segments whose pods are there.

        Returns:
            Those that nobody waits for: they are over, or their study is over or paused.
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
                    self._keep_lease(session, segment)
                    if session.record.state in (StudyState.RUNNING, StudyState.RETRAINING):
                        continue
                over.append(segment_id)
        return over

    def curve(self, segment_id: str) -> list[tuple[int, float]]:
        """The reported values of the segment's trial, those of earlier segments included."""
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            _require_open(session, segment_id)
            return session.reports.curve(number)

    def forecast(self, segment_id: str, made: CurveForecast) -> None:
        """Takes in a forecast; what follows from it is decided at the report of its step."""
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            _require_open(session, segment_id)
            record_forecast(session, number, made)

    def checkpoint(self, segment_id: str, checkpoint: Checkpoint) -> None:
        """Takes in that a checkpoint is whole in the store.

        Where it is follows from the study, its trial and its step: what the agent says of that is
        not kept, or it could have others read, copy or delete what is not the study's.
        """
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            _require_open(session, segment_id)
            uri = checkpoint_uri(session.record, number, checkpoint.step)
            session.checkpoints.add(
                number, segment_id, replace(checkpoint, uri=uri), replaces=True
            )

    def store_access(self, segment_id: str) -> StoreAccess:
        """The part of the store that the segment's agent needs; while the segment is open."""
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            segment, record = _require_open(session, segment_id), session.record
            elsewhere = score_cache.restore_from(session, number, segment.from_step)
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
        """Records how a segment ended, with its last reports. The first result counts.

        A task may add provenance afterwards. The segment's own agent may only repeat its result,
        which changes nothing.

        Args:
            segment_id: The segment.
            result: How it ended.
            last: Its last reports.
            provenance: What it was trained with.
            is_agent: Whether the segment's own agent sends this, rather than a task.
            is_fallback: Whether the result is only what the platform knows of the segment, sent
                in case that its agent reported no end.

        Returns:
            The result that counts, and the trial's if it has finished.

        Raises:
            SegmentOverError: The agent sends another result than the one on record.
        """
        study_id, number = self.ledger.study_of_segment(segment_id)
        with self.ledger.study(study_id) as session:
            segment = session.segments.find(segment_id)
            if segment is None:
                return SegmentReceipt(result=result)
            counted = segment.result
            if is_agent and counted is not None and not _is_same(result, counted):
                raise SegmentOverError(f"segment {segment_id} is over")
            is_repetition = is_agent and counted is not None
            if provenance is not None and provenance.known() and not is_repetition:
                known = provenance.over(segment.provenance)
                session.segments.record_provenance(segment_id, known)
            if counted is None:
                study_transitions.take_reports(session, number, segment_id, last)
                if last:
                    study_transitions.decide(session, segment, has_news=True)
                if is_fallback:
                    logger.info("segment %s: its agent reported no end", segment_id)
                row = study_transitions.end_segment(session, segment, result)
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
            return SegmentReceipt(result=result, score=score_of(row) if is_done else None)


def _is_same(said: SegmentResult, counted: SegmentResult) -> bool:
    """Whether a result repeats the one that counts; older segments have no cause on record."""
    return replace(said, cause=counted.cause) == counted


def score_of(row: TrialRow) -> TrialResult:
    """How a trial stands, by its row."""
    return TrialResult(
        trial=row.number,
        state=row.state,
        reason=row.reason,
        step=row.step,
        value=row.value,
        best_step=row.best_step,
        params=dict(row.params or {}),
        served=None if row.served is None else Served(**asdict(row.served)),
    )


def _require_open(session: StudyTransaction, segment_id: str) -> SegmentRow:
    segment = session.segments.find(segment_id)
    if segment is None or not segment.is_open:
        raise SegmentOverError(f"segment {segment_id} is over")
    return segment
