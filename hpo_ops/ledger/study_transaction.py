"""One transaction on one study, its row locked: what may be written, and the view to decide on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert as upsert

from hpo_ops.config import StudyConfig
from hpo_ops.core import Decision, Study, TrialState, derive_seed
from hpo_ops.ledger import schema
from hpo_ops.ledger.policy_view import EventKind, LiveView
from hpo_ops.ledger.sampler_lock import read_curve
from hpo_ops.ledger.study_record import StudyRecord, StudyState
from hpo_ops.protocol import (
    OUT_OF_MEMORY,
    Action,
    Checkpoint,
    Outcome,
    ParamValue,
    Provenance,
    Report,
    SegmentResult,
)

NEWS = {
    EventKind.SEGMENT_ENDED,
    EventKind.STUDY_CHANGED,
    EventKind.STUDY_STOPPED,
    EventKind.STUDY_RESUMED,
}
"""What may give a waiting trial its turn."""


class StudySession:
    """Writes of one transaction; the view has them too."""

    def __init__(self, connection: Connection, record: StudyRecord, view: LiveView) -> None:
        self.connection = connection
        self.record = record
        self.now = view.now
        self._view = view
        self._is_fresh = False
        self.has_news = False

    @property
    def view(self) -> Study:
        """The study as policies see it, with everything written so far."""
        if not self._is_fresh:
            self._view.refresh(self.connection, self.record.id)
            self._is_fresh = True  # nobody else writes while the study's row is locked
        return self._view.study

    def event(self, kind: EventKind, trial: int | None = None, **data: Any) -> None:
        """Appends to the history."""
        self.has_news = self.has_news or kind in NEWS
        self._insert(schema.events, kind=kind.value, trial=trial, data=data)

    # -- the study ---------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Asks the study to end: nothing new starts, what runs saves and leaves."""
        if not self.record.is_over:
            self._update_study(state=StudyState.STOPPING, reason=reason)
            self.event(EventKind.STUDY_STOPPED, reason=reason)

    def pause(self, reason: str) -> None:
        """Holds the study: what runs saves and leaves, and goes on after `resume`."""
        if self.record.state is StudyState.RUNNING:
            self._update_study(state=StudyState.PAUSED, reason=reason)
            self.event(EventKind.STUDY_PAUSED, reason=reason)

    def resume(self) -> None:
        """Lets a paused study go on."""
        if self.record.state is StudyState.PAUSED:
            self._update_study(state=StudyState.RUNNING, reason="")
            self.event(EventKind.STUDY_RESUMED)

    def retrain(self, trial: int) -> None:
        """The search is over, and a trial trains the best one on all data."""
        self._update_study(state=StudyState.RETRAINING, retraining=trial)
        self.event(EventKind.STUDY_RETRAINING, trial)

    def change(self, config: StudyConfig) -> None:
        """Changes the study while it runs."""
        self._update_study(config=config.to_dict())
        self.record = replace(self.record, config=config)
        self._view.study.goal = config.goal
        self.event(EventKind.STUDY_CHANGED, config=config.to_dict())

    def end(self, result: Mapping[str, Any]) -> None:
        """The study is over."""
        if self.record.state is not StudyState.ENDED:
            self._update_study(state=StudyState.ENDED, result=dict(result), ended_at=func.now())
            self.event(EventKind.STUDY_ENDED, reason=self.record.reason)

    def _update_study(self, **values: Any) -> None:
        table = schema.studies
        self.connection.execute(update(table).where(table.c.id == self.record.id).values(**values))
        known = {key: values[key] for key in ("state", "reason", "retraining") if key in values}
        self.record = replace(self.record, **known)

    # -- rounds ------------------------------------------------------------------------------

    def round(self, number: int) -> Row[Any] | None:
        """A round's row, where it was sampled."""
        table = schema.rounds
        return self.connection.execute(
            select(table).where(table.c.study_id == self.record.id, table.c.number == number)
        ).one_or_none()

    def add_round(self, number: int, members: Sequence[int], reason: str) -> None:
        self._insert(schema.rounds, number=number, members=list(members), reason=reason)
        self.event(EventKind.ROUND_SAMPLED, round=number, trials=list(members), reason=reason)

    def collect_round(self, number: int) -> None:
        table = schema.rounds
        self.connection.execute(
            update(table)
            .where(table.c.study_id == self.record.id, table.c.number == number)
            .values(collected_at=func.now())
        )
        self.event(EventKind.ROUND_COLLECTED, round=number)

    # -- trials ------------------------------------------------------------------------------

    def trial(self, number: int) -> Row[Any] | None:
        """A trial's row."""
        return self.trials([number]).get(number)

    def trials(self, numbers: Sequence[int]) -> dict[int, Row[Any]]:
        """The rows of some trials, by number."""
        table = schema.trials
        rows = self.connection.execute(
            select(table)
            .where(table.c.study_id == self.record.id, table.c.number.in_(numbers))
            .order_by(table.c.number)
        )
        return {row.number: row for row in rows}

    def mark_told(self, numbers: Sequence[int]) -> None:
        """The sampler has heard of these trials."""
        if numbers:
            table = schema.trials
            self.connection.execute(
                update(table)
                .where(table.c.study_id == self.record.id, table.c.number.in_(numbers))
                .values(told=True)
            )

    def add_trial(
        self,
        *,
        parent: int | None = None,
        wanted: Mapping[str, ParamValue] | None = None,
        is_retraining: bool = False,
    ) -> int:
        """Reserves the next trial, without parameters yet.

        Args:
            parent: The trial whose checkpoint it starts from.
            wanted: Parameters that it is to have; None leaves them to the sampler.
            is_retraining: It trains another one on all data; the sampler never hears of it.
        """
        number = len(self.view.trials)
        self._insert(
            schema.trials,
            number=number,
            state=TrialState.WAITING.value,
            seed=derive_seed(self.record.config.seed, "trial", number),
            parent=parent,
            wanted=None if wanted is None else dict(wanted),
            told=is_retraining,
        )
        self.event(EventKind.TRIAL_ADDED, number, parent=parent, is_retraining=is_retraining)
        return number

    def propose(self, trial: int, params: Mapping[str, ParamValue], **values: Any) -> None:
        """Gives a trial its parameters."""
        self.update_trial(trial, params=dict(params), **values)
        self.event(EventKind.TRIAL_PROPOSED, trial, params=dict(params))

    def move_trial(
        self, trial: int, state: TrialState, reason: str, *, group: int = 0, **values: Any
    ) -> None:
        """Puts a trial into a state, and into a trial group."""
        if state.is_finished:
            values["ended_at"] = func.now()
        self.update_trial(trial, state=state.value, reason=reason, **values)
        decided_step = self._paused_at(trial) if state is TrialState.PAUSED else None
        self.event(
            EventKind.TRIAL_MOVED,
            trial,
            state=state.value,
            reason=reason,
            decided_step=decided_step,
            group=group,
        )

    def update_trial(self, trial: int, **values: Any) -> None:
        table = schema.trials
        self.connection.execute(
            update(table)
            .where(table.c.study_id == self.record.id, table.c.number == trial)
            .values(**values)
        )

    def _paused_at(self, trial: int) -> int | None:
        """The step of the decision that paused a trial, if one did."""
        table = schema.decisions
        last = self.connection.execute(
            select(table.c.action, table.c.step)
            .where(table.c.study_id == self.record.id, table.c.trial == trial)
            .order_by(table.c.id.desc())
            .limit(1)
        ).one_or_none()
        return last.step if last and last.action == Action.PAUSE.value else None

    def decide(self, trial: int, step: int, decision: Decision) -> None:
        """Keeps a decision, unless it repeats the one before."""
        table = schema.decisions
        last = self.connection.execute(
            select(table.c.action, table.c.reason)
            .where(table.c.study_id == self.record.id, table.c.trial == trial)
            .order_by(table.c.id.desc())
            .limit(1)
        ).one_or_none()
        if last and (last.action, last.reason) == (decision.action.value, decision.reason):
            return
        self._insert(
            table, trial=trial, step=step, action=decision.action.value, reason=decision.reason
        )
        if decision.action is not Action.CONTINUE:
            self.event(
                EventKind.DECIDED,
                trial,
                step=step,
                action=decision.action.value,
                reason=decision.reason,
            )

    # -- segments ----------------------------------------------------------------------------

    def open_segment(self, trial: int) -> Row[Any] | None:
        """The trial's segment that has not ended."""
        table = schema.segments
        return self.connection.execute(
            select(table).where(
                table.c.study_id == self.record.id,
                table.c.trial == trial,
                table.c.outcome.is_(None),
            )
        ).one_or_none()

    def first_waiting(self) -> int | None:
        """The lowest number of the running trials that have no open segment."""
        trials, segments = schema.trials, schema.segments
        has_segment = (
            select(segments.c.id)
            .where(
                segments.c.study_id == trials.c.study_id,
                segments.c.trial == trials.c.number,
                segments.c.outcome.is_(None),
            )
            .exists()
        )
        number: int | None = self.connection.execute(
            select(func.min(trials.c.number)).where(
                trials.c.study_id == self.record.id,
                trials.c.state == TrialState.RUNNING.value,
                ~has_segment,
            )
        ).scalar_one()
        return number

    def segment(self, segment_id: str) -> Row[Any] | None:
        table = schema.segments
        return self.connection.execute(
            select(table).where(table.c.study_id == self.record.id, table.c.id == segment_id)
        ).one_or_none()

    def mishaps(self, trial: int) -> tuple[int, int]:
        """How often the trial was preempted, and how often it ran out of memory."""
        table = schema.segments
        preempted = table.c.outcome == Outcome.PREEMPTED.value
        is_oom = table.c.reason.startswith(OUT_OF_MEMORY)
        counts = self.connection.execute(
            select(
                func.count().filter(preempted & ~is_oom).label("preemptions"),
                func.count().filter(is_oom).label("ooms"),
            ).where(table.c.study_id == self.record.id, table.c.trial == trial)
        ).one()
        return counts.preemptions, counts.ooms

    def start_segment(
        self, segment_id: str, trial: int, *, width: Fraction = Fraction(1), **values: Any
    ) -> None:
        self._insert(schema.segments, id=segment_id, trial=trial, units=float(width), **values)
        self.update_trial(trial, state=TrialState.RUNNING.value, reason="", asked_at=None)
        self.event(
            EventKind.SEGMENT_STARTED,
            trial,
            segment=segment_id,
            from_step=values["from_step"],
            until_step=values["until_step"],
            width=str(width),
        )

    def ask_segment(self, segment_id: str, decision: Decision) -> None:
        """Keeps what a segment was asked to do: it stays so until the segment ends."""
        table = schema.segments
        self.connection.execute(
            update(table)
            .where(table.c.id == segment_id)
            .values(asked=decision.action.value, asked_reason=decision.reason)
        )

    def describe_segment(self, segment_id: str, provenance: Provenance) -> None:
        """Keeps what a segment is trained with."""
        table = schema.segments
        self.connection.execute(
            update(table).where(table.c.id == segment_id).values(provenance=provenance.known())
        )

    def end_segment(self, segment_id: str, trial: int, result: SegmentResult) -> None:
        """Closes a segment and gives its lease back."""
        table = schema.segments
        self.connection.execute(
            update(table)
            .where(table.c.id == segment_id)
            .values(
                outcome=result.outcome.value,
                step=result.step,
                reason=result.reason,
                exit_code=result.exit_code,
                ended_at=func.now(),
            )
        )
        self.connection.execute(
            delete(schema.leases).where(schema.leases.c.segment_id == segment_id)
        )
        self.event(
            EventKind.SEGMENT_ENDED,
            trial,
            segment=segment_id,
            outcome=result.outcome.value,
            step=result.step,
            reason=result.reason,
        )

    # -- reports and checkpoints -------------------------------------------------------------

    def add_reports(self, trial: int, segment_id: str, new: Sequence[Report]) -> None:
        """Keeps reports; a step that is there already stays as it was."""
        if not new:
            return
        metric = self.record.config.objective.name
        self._is_fresh = False
        self.connection.execute(
            upsert(schema.reports).on_conflict_do_nothing(),
            [
                {
                    "study_id": self.record.id,
                    "trial": trial,
                    "step": report.step,
                    "segment_id": segment_id,
                    "value": report.metrics[metric],
                    "metrics": report.metrics,
                    "seconds": report.seconds,
                }
                for report in new
            ],
        )

    def add_checkpoint(
        self, trial: int, segment_id: str, checkpoint: Checkpoint, *, is_anew: bool = False
    ) -> None:
        """Keeps that a checkpoint is in the store.

        Args:
            trial: The trial.
            segment_id: The segment that saved it.
            checkpoint: The checkpoint.
            is_anew: Whether it takes the place of an earlier one of the same step: a trial that
                trains a step again uploads it again. Otherwise the earlier one stays.
        """
        values = {"segment_id": segment_id, **checkpoint.to_dict()}
        added = self.connection.execute(
            upsert(schema.checkpoints)
            .values(study_id=self.record.id, trial=trial, **values)
            .on_conflict_do_nothing()
        )
        if added.rowcount:
            self.event(EventKind.CHECKPOINT, trial, step=checkpoint.step, bytes=checkpoint.bytes)
        elif is_anew:
            table = schema.checkpoints
            self.connection.execute(
                update(table)
                .where(
                    table.c.study_id == self.record.id,
                    table.c.trial == trial,
                    table.c.step == checkpoint.step,
                )
                .values(**values)
            )

    def forget_checkpoints(self, keep: Collection[tuple[int, int]]) -> None:
        """Forgets all checkpoints but some (trial, step), by whichever trial they are known."""
        table = schema.checkpoints
        is_mine = table.c.study_id == self.record.id
        kept = select(table.c.uri).where(
            is_mine, tuple_(table.c.trial, table.c.step).in_(sorted(keep))
        )
        self.connection.execute(delete(table).where(is_mine, table.c.uri.not_in(kept)))

    def curve(self, trial: int) -> list[tuple[int, float]]:
        """The reported values of a trial, by step."""
        return read_curve(self.connection, self.record.id, trial)

    def _insert(self, table: Any, **values: Any) -> None:
        self._is_fresh = self._is_fresh and table is not schema.events
        self.connection.execute(insert(table).values(study_id=self.record.id, **values))
