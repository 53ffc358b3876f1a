"""Which trials the sampler has heard of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from hpo_ops.core import TrialState
from hpo_ops.ledger import schema

if TYPE_CHECKING:
    from sqlalchemy import Row

    from hpo_ops.ledger.session import StudySession

FINISHED = [state.value for state in TrialState if state.is_finished]


def untold(session: StudySession) -> list[Row[Any]]:
    """The rows of the finished trials of which the sampler has not heard, by number."""
    table = schema.trials
    return list(
        session.connection.execute(
            select(table)
            .where(
                table.c.study_id == session.record.id,
                table.c.told.is_(False),
                table.c.state.in_(FINISHED),
            )
            .order_by(table.c.number)
        )
    )


def mark_told(session: StudySession, numbers: Sequence[int]) -> None:
    """The sampler has heard of these trials."""
    if numbers:
        table = schema.trials
        session.connection.execute(
            update(table)
            .where(table.c.study_id == session.record.id, table.c.number.in_(numbers))
            .values(told=True)
        )
