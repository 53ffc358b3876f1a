"""The history of a study: an append-only log of events, from which its view is folded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, insert

from hpo_ops.ledger import _schema
from hpo_ops.ledger._policy_view import EventKind

NEWS = {
    EventKind.SEGMENT_ENDED,
    EventKind.STUDY_CHANGED,
    EventKind.STUDY_STOPPED,
    EventKind.STUDY_RESUMED,
}
"""Events after which a waiting trial may be able to start, or has to end."""


class StudyHistory:
    """The history of one study within one transaction that holds the study's lock.

    Attributes:
        connection: The transaction's connection.
        study_id: The study.
        has_news: Whether an event of `NEWS` was appended, so that waiting tasks are woken.
        is_changed: Whether the view lacks something that was written.
    """

    def __init__(self, connection: Connection, study_id: int) -> None:
        self.connection = connection
        self.study_id = study_id
        self.has_news = False
        self.is_changed = True

    def append(
        self, kind: EventKind, trial: int | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """Appends an event.

        Args:
            kind: What happened.
            trial: The trial to which it happened, if to one.
            data: What else there is to say, as plain data.
        """
        self.has_news = self.has_news or kind in NEWS
        self.is_changed = True
        self.connection.execute(
            insert(_schema.events).values(
                study_id=self.study_id, kind=kind.value, trial=trial, data=dict(data or {})
            )
        )
