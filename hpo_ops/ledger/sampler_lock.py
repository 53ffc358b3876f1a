"""What the sampler is yet to be asked and told. Reads only, and needs no lock on the study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from hpo_ops.core import TrialState
from hpo_ops.ledger import schema
from hpo_ops.ledger.study_record import StudyRecord

_FINISHED = [state.value for state in TrialState if state.is_finished]


@dataclass(frozen=True)
class SamplerLock:
    """The right to ask the sampler of a study; nobody else does meanwhile."""

    connection: Connection
    record: StudyRecord

    def unasked(self, numbers: Sequence[int]) -> dict[int, Row[Any]]:
        """The rows without parameters of some trials and of those before them, by number."""
        if not numbers:
            return {}
        table = schema.trials
        rows = self.connection.execute(
            select(table)
            .where(
                table.c.study_id == self.record.id,
                table.c.number <= max(numbers),
                table.c.params.is_(None),
                table.c.state.not_in(_FINISHED),
            )
            .order_by(table.c.number)
        )
        return {row.number: row for row in rows}

    def untold(self) -> list[tuple[Row[Any], list[tuple[int, float]]]]:
        """The finished trials of which the sampler has not heard, by number, and their curves."""
        table = schema.trials
        rows = self.connection.execute(
            select(table)
            .where(
                table.c.study_id == self.record.id,
                ~table.c.told,  # "IS FALSE" would not find the index
                table.c.state.in_(_FINISHED),
            )
            .order_by(table.c.number)
        ).all()
        return [(row, read_curve(self.connection, self.record.id, row.number)) for row in rows]

    def has_unfinished(self, numbers: Sequence[int]) -> bool:
        """Whether some of the trials have not ended."""
        table = schema.trials
        found = self.connection.execute(
            select(table.c.number)
            .where(
                table.c.study_id == self.record.id,
                table.c.number.in_(numbers),
                table.c.state.not_in(_FINISHED),
            )
            .limit(1)
        )
        return found.first() is not None


def read_curve(connection: Connection, study_id: int, trial: int) -> list[tuple[int, float]]:
    """The reported values of a trial, by step."""
    table = schema.reports
    rows = connection.execute(
        select(table.c.step, table.c.value)
        .where(table.c.study_id == study_id, table.c.trial == trial)
        .order_by(table.c.step)
    )
    return [(row.step, row.value) for row in rows]
