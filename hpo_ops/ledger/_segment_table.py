"""Reads and writes the segments (uninterrupted executions of a trial) of one study."""

from __future__ import annotations

from fractions import Fraction

from sqlalchemy import delete, func, insert, select, update

from hpo_ops.core import Decision, TrialState
from hpo_ops.ledger import _schema
from hpo_ops.ledger._policy_view import EventKind
from hpo_ops.ledger._study_history import StudyHistory
from hpo_ops.ledger.rows import Mishaps, SegmentRow, read_segment
from hpo_ops.protocol import Cause, Outcome, Provenance, SegmentResult


class SegmentTable:
    """The segments of one study, within one transaction that holds the study's lock.

    A trial has at most one open segment (a segment without a recorded outcome).
    """

    def __init__(self, history: StudyHistory) -> None:
        self._history = history
        self._connection = history.connection
        self._study_id = history.study_id

    # -- queries -----------------------------------------------------------------------------

    def find(self, segment_id: str) -> SegmentRow | None:
        """Returns a segment by its id, or None if the study has no such segment."""
        table = _schema.segments
        row = self._connection.execute(
            select(table).where(table.c.study_id == self._study_id, table.c.id == segment_id)
        ).one_or_none()
        return None if row is None else read_segment(row)

    def find_open(self, trial: int) -> SegmentRow | None:
        """Returns the open segment of a trial, or None if the trial has no open segment."""
        table = _schema.segments
        row = self._connection.execute(
            select(table).where(
                table.c.study_id == self._study_id,
                table.c.trial == trial,
                table.c.outcome.is_(None),
            )
        ).one_or_none()
        return None if row is None else read_segment(row)

    def count_mishaps(self, trial: int) -> Mishaps:
        """Counts the segments of a trial that were preempted, and those that ran out of memory."""
        table = _schema.segments
        is_oom = table.c.cause.is_not_distinct_from(Cause.OUT_OF_MEMORY.value)
        is_preempted = table.c.outcome == Outcome.PREEMPTED.value
        counts = self._connection.execute(
            select(
                func.count().filter(is_preempted & ~is_oom).label("preemptions"),
                func.count().filter(is_oom).label("out_of_memory"),
            ).where(table.c.study_id == self._study_id, table.c.trial == trial)
        ).one()
        return Mishaps(preemptions=counts.preemptions, out_of_memory=counts.out_of_memory)

    # -- commands ----------------------------------------------------------------------------

    def start(
        self,
        segment_id: str,
        trial: int,
        *,
        key: str,
        from_step: int,
        until_step: int | None,
        runner: str,
        width: Fraction = Fraction(1),
        provenance: Provenance | None = None,
    ) -> None:
        """Inserts an open segment, sets the trial's state to RUNNING and takes it off the queue.

        Args:
            segment_id: Id of the new segment.
            trial: Number of the trial.
            key: Idempotency key of the request that starts the segment.
            from_step: Step of the checkpoint from which the segment starts; 0 if it starts without
                a checkpoint.
            until_step: Step at which the segment ends; None for the training's own end.
            runner: Name of the runner that executes the segment.
            width: Number of resource units of the segment; a fraction if trials share a unit.
            provenance: The known code, image, packages and hardware of the segment.
        """
        self._connection.execute(
            insert(_schema.segments).values(
                study_id=self._study_id,
                id=segment_id,
                trial=trial,
                key=key,
                from_step=from_step,
                until_step=until_step,
                runner=runner,
                units=float(width),
                provenance=None if provenance is None else provenance.known(),
            )
        )
        trials = _schema.trials
        self._connection.execute(
            update(trials)
            .where(trials.c.study_id == self._study_id, trials.c.number == trial)
            .values(state=TrialState.RUNNING.value, reason="", queued_at=None)
        )
        data = {
            "segment": segment_id,
            "from_step": from_step,
            "until_step": until_step,
            "width": str(width),
        }
        self._history.append(EventKind.SEGMENT_STARTED, trial, data)

    def request(self, segment_id: str, decision: Decision) -> None:
        """Records the action that a segment is to carry out, in place of any earlier request."""
        self._update(
            segment_id,
            {"requested_action": decision.action.value, "requested_reason": decision.reason},
        )

    def record_provenance(self, segment_id: str, provenance: Provenance) -> None:
        """Records the provenance (code, image, packages, hardware) of a segment."""
        self._update(segment_id, {"provenance": provenance.known()})

    def end(self, segment_id: str, trial: int, result: SegmentResult) -> None:
        """Records the end of a segment and deletes its lease; the trial's state is not changed."""
        self._update(
            segment_id,
            {
                "outcome": result.outcome.value,
                "step": result.step,
                "reason": result.reason,
                "cause": result.cause.value,
                "exit_code": result.exit_code,
                "ended_at": func.now(),
            },
        )
        self._connection.execute(
            delete(_schema.leases).where(_schema.leases.c.segment_id == segment_id)
        )
        data = {
            "segment": segment_id,
            "outcome": result.outcome.value,
            "step": result.step,
            "reason": result.reason,
            "cause": result.cause.value,
        }
        self._history.append(EventKind.SEGMENT_ENDED, trial, data)

    def _update(self, segment_id: str, values: dict[str, object]) -> None:
        table = _schema.segments
        self._connection.execute(update(table).where(table.c.id == segment_id).values(**values))
