"""Pools of resources that studies share."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class PoolSummary(Message):
    """A pool and its use.

    Attributes:
        capacity: Units of the pool; None if unknown.
        is_fixed: Whether a person set the capacity, rather than the platform counting it.
        held: Units that trials hold.
    """

    name: str
    capacity: float | None
    is_fixed: bool
    held: float
