"""Reads and writes the rounds (batches of trials that are sampled together) of one study."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, insert, select, update

from hpo_ops.ledger import _schema
from hpo_ops.ledger._policy_view import EventKind
from hpo_ops.ledger._study_history import StudyHistory
from hpo_ops.ledger.rows import RoundRow, read_round


class RoundTable:
    """The rounds of one study, within one transaction that holds the study's lock."""

    def __init__(self, history: StudyHistory) -> None:
        self._history = history
        self._connection = history.connection
        self._study_id = history.study_id

    def find(self, number: int) -> RoundRow | None:
        """Returns a round, or None if no round with this number has been sampled."""
        table = _schema.rounds
        row = self._connection.execute(
            select(table).where(table.c.study_id == self._study_id, table.c.number == number)
        ).one_or_none()
        return None if row is None else read_round(row)

    def add(self, number: int, members: Sequence[int], reason: str) -> None:
        """Inserts a round with its trials and the reason why the scheduler chose these trials."""
        self._connection.execute(
            insert(_schema.rounds).values(
                study_id=self._study_id, number=number, members=list(members), reason=reason
            )
        )
        data = {"round": number, "trials": list(members), "reason": reason}
        self._history.append(EventKind.ROUND_SAMPLED, data=data)

    def mark_collected(self, number: int) -> None:
        """Records that a round is closed because the results of its trials were collected."""
        table = _schema.rounds
        self._connection.execute(
            update(table)
            .where(table.c.study_id == self._study_id, table.c.number == number)
            .values(collected_at=func.now())
        )
        self._history.append(EventKind.ROUND_COLLECTED, data={"round": number})
