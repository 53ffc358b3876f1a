"""A study's view, folded from the ledger: what happened, in the order in which it did."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, select

from hpo_ops.core import Goal, Study, TrialState
from hpo_ops.ledger.schema import events, reports


class EventKind(StrEnum):
    """What can happen in a study."""

    STUDY_STARTED = "study started"
    STUDY_CHANGED = "study changed"
    STUDY_STOPPED = "study stopped"
    STUDY_PAUSED = "study paused"
    STUDY_RESUMED = "study resumed"
    STUDY_ENDED = "study ended"
    ROUND_SAMPLED = "round sampled"
    ROUND_COLLECTED = "round collected"
    TRIAL_ADDED = "trial added"
    TRIAL_PROPOSED = "trial proposed"
    TRIAL_MOVED = "trial moved"
    SEGMENT_STARTED = "segment started"
    SEGMENT_ENDED = "segment ended"
    CHECKPOINT = "checkpoint"
    DECIDED = "decided"


class LiveView:
    """The view of one live study and how far it has been folded."""

    def __init__(self, goal: Goal) -> None:
        self.study = Study(goal)
        self.now = 0.0
        self._last = 0

    def refresh(self, connection: Connection, study_id: int) -> None:
        """Folds what happened since the last time. The caller holds the study's lock."""
        after = self._last
        happened = connection.execute(
            select(events.c.id, events.c.kind, events.c.trial, events.c.data)
            .where(events.c.study_id == study_id, events.c.id > after)
            .order_by(events.c.id)
        ).all()
        reported = connection.execute(
            select(
                reports.c.id, reports.c.trial, reports.c.step, reports.c.value, reports.c.seconds
            )
            .where(reports.c.study_id == study_id, reports.c.id > after)
            .order_by(reports.c.id)
        ).all()
        rows: list[tuple[int, Any]] = [(row.id, row) for row in (*happened, *reported)]
        rows.sort(key=lambda item: item[0])
        for number, row in rows:
            if hasattr(row, "kind"):
                _fold(self.study, row.kind, row.trial, row.data)
            else:
                self.study.record(row.trial, row.step, row.value, row.seconds)
            self._last = number


def _fold(study: Study, kind: str, trial: int | None, data: Mapping[str, Any]) -> None:
    if trial is None:
        return
    match kind:
        case EventKind.TRIAL_ADDED:
            study.add()
        case EventKind.TRIAL_PROPOSED:
            study.trials[trial].params = data["params"]
        case EventKind.TRIAL_MOVED:
            study.move(trial, TrialState(data["state"]), decided_step=data.get("decided_step"))
        case EventKind.SEGMENT_STARTED:
            study.start(trial, width=Fraction(str(data.get("width", 1))))
        case EventKind.CHECKPOINT:
            study.trials[trial].checkpoint_step = max(
                study.trials[trial].checkpoint_step, data["step"]
            )
