"""Routes of pools: their capacity in resource units (such as GPUs), and the units on lease."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from hpo_ops.client import PoolSummary
from hpo_ops.gateway.http._caller_rights import PLATFORM_DAG
from hpo_ops.gateway.http._route_dependencies import (
    PEOPLE,
    TASK_ONLY,
    TASKS,
    CurrentCaller,
    OpenLedger,
)
from hpo_ops.ledger import leases, pool_usage

pool_router = APIRouter()


@pool_router.get("/pools", tags=[PEOPLE])
def list_pools(caller: CurrentCaller, ledger: OpenLedger) -> list[PoolSummary]:
    """Lists the pools with their capacity and the units on lease."""
    caller.require_person()
    with ledger.connect() as connection:
        pools = pool_usage.list_pools(connection)
    return [
        PoolSummary(name=pool.name, capacity=pool.capacity, is_fixed=pool.is_fixed, held=pool.held)
        for pool in pools
    ]


Capacity = Annotated[float, Query(ge=0, lt=leases.UNKNOWN)]


@pool_router.post("/pools/{name}", tags=[PEOPLE])
def set_capacity(name: str, capacity: Capacity, caller: CurrentCaller, ledger: OpenLedger) -> None:
    """Sets the capacity of a pool; running studies with an allocator adapt to the change."""
    caller.require_edit_dag(PLATFORM_DAG)
    with ledger.begin() as connection:
        leases.set_capacity(connection, name, capacity)


@pool_router.post("/pools/{name}/found", tags=[TASKS], dependencies=[TASK_ONLY])
def record_measured_capacity(name: str, capacity: Capacity, ledger: OpenLedger) -> None:
    """Records a pool's capacity counted from its nodes, unless a person has set the capacity."""
    with ledger.begin() as connection:
        leases.find_capacity(connection, name, capacity)
