"""The leases of one study on resource units (such as GPUs) of the pool that studies share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlalchemy import Connection

from hpo_ops.ledger import leases
from hpo_ops.ledger._study_record import StudyRecord
from hpo_ops.ledger.leases import Room


@dataclass(frozen=True)
class StudyLeases:
    """The leases of one study, within a transaction that holds the study's lock.

    `take` also locks the pool's row until the commit, so that concurrent studies cannot exceed the
    capacity. Locks are always acquired in the order study, pool.

    Attributes:
        connection: The transaction's connection.
        record: The study.
    """

    connection: Connection
    record: StudyRecord

    def take(self, *, trial: int, segment_id: str, width: float | Fraction) -> str | None:
        """Inserts a lease for a segment, or returns the reason why no lease is available.

        Args:
            trial: Number of the segment's trial.
            segment_id: Id of the segment.
            width: Number of units of the segment; a fraction if trials share a unit.

        Returns:
            None if the lease was inserted, otherwise the reason why it was refused.
        """
        config = self.record.config
        return leases.take(
            self.connection,
            pool=config.pool,
            amount=float(width) * config.lease,
            study_id=self.record.id,
            trial=trial,
            segment_id=segment_id,
            at_most=config.parallelism,
        )

    def renew(self, segment_id: str) -> bool:
        """Extends the lease of a segment; returns False if the lease was deleted."""
        return leases.renew(self.connection, segment_id)

    def mark_queued(self, trials: Sequence[int]) -> None:
        """Records that trials of the study are queued for a lease.

        Other studies that hold more leases on the pool then get no further lease.
        """
        leases.mark_queued(self.connection, study_id=self.record.id, numbers=trials)

    def count_free(self) -> int:
        """Returns how many more segments of the study, each of width 1, could get a lease now."""
        config = self.record.config
        return leases.count_free(
            self.connection,
            pool=config.pool,
            study_id=self.record.id,
            at_most=config.parallelism,
            amount=config.lease,
        )

    def room(self) -> Room:
        """Returns the numbers of units of the pool that the study may hold and that are free."""
        return leases.room(self.connection, pool=self.record.config.pool, study_id=self.record.id)
