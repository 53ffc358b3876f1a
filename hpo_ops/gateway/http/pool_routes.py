"""Routes of pools: what each has, what is held of it, and how to change that."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import func, select

from hpo_ops.client import PoolSummary
from hpo_ops.gateway.http.authentication import PLATFORM_DAG
from hpo_ops.gateway.http.routes import Known, Service, Task
from hpo_ops.ledger import leases, schema

pools = APIRouter()


@pools.get("/pools", tags=["people"])
def list_pools(caller: Known, studies: Service) -> list[PoolSummary]:
    """The pools, by name."""
    caller.require_person()
    held = (
        select(schema.leases.c.pool, func.sum(schema.leases.c.amount).label("held"))
        .where(schema.leases.c.expires_at > func.now())
        .group_by(schema.leases.c.pool)
        .subquery()
    )
    with studies.ledger.engine.connect() as connection:
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


Amount = Annotated[float, Query(ge=0, lt=leases.UNKNOWN)]


@pools.post("/pools/{name}", tags=["people"])
def set_pool(name: str, capacity: Amount, caller: Known, studies: Service) -> None:
    """Sets what a pool has; studies with an allocator grow and shrink with it."""
    caller.require_edit_dag(PLATFORM_DAG)
    with studies.ledger.engine.begin() as connection:
        leases.set_capacity(connection, name, capacity)


@pools.post("/pools/{name}/found", tags=["tasks"], dependencies=[Task])
def find_pool(name: str, capacity: Amount, studies: Service) -> None:
    """Says what the nodes of a pool were found to have; a capacity that was set stays."""
    with studies.ledger.engine.begin() as connection:
        leases.find_capacity(connection, name, capacity)
