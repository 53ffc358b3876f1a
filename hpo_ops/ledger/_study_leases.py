"""The leases of one study: its part in the pool that it shares with other studies."""

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
    """The part of one study in its pool, within a transaction that holds the study's lock.

    `take` locks the pool's row too, until the commit, so that studies of one pool never hold more
    than the pool has. The order of locks is always study, then pool.
    """

    connection: Connection
    record: StudyRecord

    def take(self, *, trial: int, segment_id: str, width: float | Fraction) -> str | None:
        """Takes a lease for a segment.

        Args:
            trial: The segment's trial.
            segment_id: The segment.
            width: Units that it gets.

        Returns:
            None where the lease was taken, else why there is none to be had.
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
        """Extends the lease of a segment; False where it has expired and was given away."""
        return leases.renew(self.connection, segment_id)

    def mark_queued(self, trials: Sequence[int]) -> None:
        """Records that trials are queued for a lease, so that other studies leave them theirs."""
        leases.mark_queued(self.connection, study_id=self.record.id, numbers=trials)

    def count_free(self) -> int:
        """How many segments of the study, one unit wide, could take a lease now."""
        config = self.record.config
        return leases.count_free(
            self.connection,
            pool=config.pool,
            study_id=self.record.id,
            at_most=config.parallelism,
            amount=config.lease,
        )

    def room(self) -> Room:
        """What the study may hold of its pool."""
        return leases.room(self.connection, pool=self.record.config.pool, study_id=self.record.id)
