"""Messages about pools: named amounts of resource units (such as GPUs) that studies share."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class PoolSummary(Message):
    """Capacity and current use of a pool of resource units (such as GPUs).

    Attributes:
        name: Name of the pool.
        capacity: Number of units in the pool; None if unknown.
        is_fixed: Whether a person set the capacity; otherwise the platform counted it.
        held: Number of units that running trials currently lease.
    """

    name: str
    capacity: float | None
    is_fixed: bool
    held: float
