"""The history of a study: an append-only log of events, from which the policies' view is built."""

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
"""Kinds of events after which a waiting trial may be able to start, or must end."""


class StudyHistory:
    """The history of one study within one transaction that holds the study's lock.

    Attributes:
        connection: The transaction's connection.
        study_id: Id of the study.
        has_news: Whether an event of a kind in `NEWS` was appended; requests that wait for a
            change of the study are then woken after the commit.
        is_changed: Whether the policies' in-memory view of the study may lack rows that have been
            written, so that the view must be refreshed before its next use.
    """

    def __init__(self, connection: Connection, study_id: int) -> None:
        self.connection = connection
        self.study_id = study_id
        self.has_news = False
        self.is_changed = True

    def append(
        self, kind: EventKind, trial: int | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """Appends an event to the study's history.

        Args:
            kind: Kind of the event.
            trial: Number of the trial that the event concerns; None for an event of the study.
            data: Details of the event that can be stored as JSON; None for no details.
        """
        self.has_news = self.has_news or kind in NEWS
        self.is_changed = True
        self.connection.execute(
            insert(_schema.events).values(
                study_id=self.study_id, kind=kind.value, trial=trial, data=dict(data or {})
            )
        )
