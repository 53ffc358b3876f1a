"""Commands and queries on the segments of one study."""

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

    A trial has at most one open segment. The first end of a segment that is recorded counts: the
    segment is closed by it, and its lease is free.
    """

    def __init__(self, history: StudyHistory) -> None:
        self._history = history
        self._connection = history.connection
        self._study_id = history.study_id

    # -- queries -----------------------------------------------------------------------------

    def find(self, segment_id: str) -> SegmentRow | None:
        """A segment of the study; None where the study has no such segment."""
        table = _schema.segments
        row = self._connection.execute(
            select(table).where(table.c.study_id == self._study_id, table.c.id == segment_id)
        ).one_or_none()
        return None if row is None else read_segment(row)

    def find_open(self, trial: int) -> SegmentRow | None:
        """The open segment of a trial; None where it has none."""
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
        """How often segments of a trial were preempted, and how often they ran out of memory."""
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
        """Opens a segment of a trial, which is no longer queued.

        Args:
            segment_id: A new id.
            trial: The trial.
            key: Idempotency key of the request.
            from_step: The step of the checkpoint that it starts from; 0 without one.
            until_step: The step at which it ends; None is the training's own end.
            runner: The runner that executes it.
            width: Units that it has.
            provenance: What it is trained with, as far as is known.
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
        """Records the action that a segment is to carry out. It stands until the segment ends."""
        self._update(
            segment_id,
            {"requested_action": decision.action.value, "requested_reason": decision.reason},
        )

    def record_provenance(self, segment_id: str, provenance: Provenance) -> None:
        """Records what a segment is trained with."""
        self._update(segment_id, {"provenance": provenance.known()})

    def end(self, segment_id: str, trial: int, result: SegmentResult) -> None:
        """Closes a segment and frees its lease. The state of its trial is not touched."""
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
