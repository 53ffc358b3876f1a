"""Routes of pools: their capacity, and how much of it is leased."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import func, select

from hpo_ops.client import PoolSummary
from hpo_ops.gateway.http.authentication import PLATFORM_DAG
from hpo_ops.gateway.http.route_dependencies import (
    PEOPLE,
    TASK_ONLY,
    TASKS,
    CurrentCaller,
    OpenLedger,
)
from hpo_ops.ledger import leases, schema

pool_router = APIRouter()


@pool_router.get("/pools", tags=[PEOPLE])
def list_pools(caller: CurrentCaller, ledger: OpenLedger) -> list[PoolSummary]:
    """Lists the pools by name."""
    caller.require_person()
    held = (
        select(schema.leases.c.pool, func.sum(schema.leases.c.amount).label("held"))
        .where(schema.leases.c.expires_at > func.now())
        .group_by(schema.leases.c.pool)
        .subquery()
    )
    with ledger.engine.connect() as connection:
        rows = connection.execute(
            select(schema.pools, func.coalesce(held.c.held, 0.0).label("held"))
            .join(held, held.c.pool == schema.pools.c.name, isouter=True)
            .order_by(schema.pools.c.name)
        ).all()
    return [
        PoolSummary(
            name=row.name,
            capacity=None if row.capacity >= leases.UNKNOWN else row.capacity,
            is_fixed=row.is_fixed,
            held=float(row.held),
        )
        for row in rows
    ]


Capacity = Annotated[float, Query(ge=0, lt=leases.UNKNOWN)]


@pool_router.post("/pools/{name}", tags=[PEOPLE])
def set_capacity(name: str, capacity: Capacity, caller: CurrentCaller, ledger: OpenLedger) -> None:
    """Sets the capacity of a pool. Studies with an allocator grow and shrink with it."""
    caller.require_edit_dag(PLATFORM_DAG)
    with ledger.engine.begin() as connection:
        leases.set_capacity(connection, name, capacity)


@pool_router.post("/pools/{name}/found", tags=[TASKS], dependencies=[TASK_ONLY])
def record_measured_capacity(name: str, capacity: Capacity, ledger: OpenLedger) -> None:
    """Records the capacity of a pool as measured from its nodes, unless a person has set it."""
    with ledger.engine.begin() as connection:
        leases.find_capacity(connection, name, capacity)
