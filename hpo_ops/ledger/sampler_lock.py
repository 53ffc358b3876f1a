"""The lock on a study's sampler, and what the sampler has yet to be asked for and told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from hpo_ops.core import TrialState
from hpo_ops.ledger import _schema
from hpo_ops.ledger._report_table import read_curve
from hpo_ops.ledger._study_record import StudyRecord
from hpo_ops.ledger.rows import TrialRow, read_trial

_FINISHED = [state.value for state in TrialState if state.is_finished]


@dataclass(frozen=True, kw_only=True)
class FinishedTrial:
    """A finished trial and its learning curve: steps and values of the objective."""

    row: TrialRow
    curve: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class SamplerLock:
    """The exclusive right to use the sampler of a study, made by `Ledger.sampler_lock`.

    The sampler is asked and told outside of the study's own lock, since it may take seconds:
    reports of running trials go on meanwhile. This object only reads, in a transaction of its own,
    so that rows may change after they were read; what follows from them is written in a
    `StudyTransaction`. It must not be used after the block of `Ledger.sampler_lock`, or by another
    thread.
    """

    connection: Connection
    record: StudyRecord

    def trials_without_params(self, numbers: Sequence[int]) -> dict[int, TrialRow]:
        """Trials that wait for parameters, by number: of the given ones and of all before them."""
        if not numbers:
            return {}
        table = _schema.trials
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
        return {row.number: read_trial(row) for row in rows}

    def untold_trials(self) -> list[FinishedTrial]:
        """Finished trials that the sampler was not told of yet, by number."""
        table = _schema.trials
        rows = self.connection.execute(
            select(table)
            .where(
                table.c.study_id == self.record.id,
                ~table.c.told,  # "IS FALSE" would not find the index
                table.c.state.in_(_FINISHED),
            )
            .order_by(table.c.number)
        ).all()
        return [
            FinishedTrial(
                row=read_trial(row), curve=read_curve(self.connection, self.record.id, row.number)
            )
            for row in rows
        ]

    def has_unfinished(self, numbers: Sequence[int]) -> bool:
        """Whether some of the trials have not finished."""
        table = _schema.trials
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
