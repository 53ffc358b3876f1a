"""Queries for pools: the capacity and the leased resource units (such as GPUs) of each pool."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from hpo_ops.ledger._schema import leases, pools
from hpo_ops.ledger.leases import UNKNOWN


@dataclass(frozen=True, kw_only=True)
class PoolUsage:
    """The capacity of a pool and its leased units.

    Attributes:
        capacity: Number of units of the pool; None if it is not known.
        is_fixed: Whether an operator has set the capacity, so that measurements do not change it.
        held: Number of units in leases that have not expired.
    """

    name: str
    capacity: float | None
    is_fixed: bool
    held: float


def list_pools(connection: Connection) -> list[PoolUsage]:
    """Lists all pools with their usage, sorted by name."""
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
