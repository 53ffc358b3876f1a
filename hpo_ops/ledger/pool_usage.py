"""Queries for pools: their capacity, and how much of it is leased."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from hpo_ops.ledger._schema import leases, pools
from hpo_ops.ledger.leases import UNKNOWN


@dataclass(frozen=True, kw_only=True)
class PoolUsage:
    """A pool with the units that are leased of it.

    Attributes:
        capacity: Units that the pool has; None where nobody knows.
        is_fixed: Whether a person has set the capacity, so that measurements do not change it.
        held: Units in leases that have not expired.
    """

    name: str
    capacity: float | None
    is_fixed: bool
    held: float


def list_pools(connection: Connection) -> list[PoolUsage]:
    """Lists the pools by name."""
    held = (
        select(leases.c.pool, func.sum(leases.c.amount).label("held"))
        .where(leases.c.expires_at > func.now())
        .group_by(leases.c.pool)
        .subquery()
    )
    rows = connection.execute(
        select(pools, func.coalesce(held.c.held, 0.0).label("held"))
        .join(held, held.c.pool == pools.c.name, isouter=True)
        .order_by(pools.c.name)
    )
    return [
        PoolUsage(
            name=row.name,
            capacity=None if row.capacity >= UNKNOWN else row.capacity,
            is_fixed=row.is_fixed,
            held=float(row.held),
        )
        for row in rows
    ]
