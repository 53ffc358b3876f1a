"""The lock on a study's sampler, with queries for the trials that the sampler must process."""

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
    """A finished trial and its learning curve, as pairs of step and objective value."""

    row: TrialRow
    curve: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class SamplerLock:
    """The exclusive right to use the sampler of a study; created by `Ledger.sampler_lock`.

    A sampler may need seconds to propose hyperparameters or to process results. It therefore runs
    without the study's lock, so that the reports of running trials do not wait. The methods only
    read, and the rows that they return may change afterwards; results of the sampler are written
    in a `StudyTransaction`. The object must not be used after the block of `Ledger.sampler_lock`
    or by another thread.

    Attributes:
        connection: Connection of the transaction that holds the lock.
        record: The study.
    """

    connection: Connection
    record: StudyRecord

    def trials_without_params(self, numbers: Sequence[int]) -> dict[int, TrialRow]:
        """Returns the unfinished trials for which the sampler has not proposed hyperparameters.

        Args:
            numbers: Numbers of trials. All trials up to the highest of these numbers are
                considered, also trials whose numbers are not given.

        Returns:
            The trials by number.
        """
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
        """Lists finished trials whose results the sampler has not received, by number."""
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
        """Returns whether at least one of the given trials has not finished."""
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
