"""Leases: records that a segment holds units of a pool until a given time.

A segment is one uninterrupted execution of a trial. A pool is a named amount of resource units
(such as GPUs) that studies share. Heartbeats extend a lease; an expired lease is deleted the next
time that the units of its pool are counted. Every function runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from hpo_ops.ledger._schema import leases, pools, studies, trials

LEASE_TIME = timedelta(seconds=120)
"""Time after which a lease expires unless a heartbeat extends it."""
STARTING = ("running", "retraining")
"""States in which a study starts segments, so that its trials may be queued for units."""
UNKNOWN = 1_000_000.0
"""Capacity recorded for a pool of unknown capacity: the cluster queues pods that do not fit."""


def set_capacity(connection: Connection, pool: str, capacity: float) -> None:
    """Sets a fixed capacity of a pool, which `find_capacity` does not overwrite."""
    fixed = {"capacity": capacity, "is_fixed": True}
    connection.execute(
        upsert(pools)
        .values(name=pool, **fixed)
        .on_conflict_do_update(index_elements=["name"], set_=fixed)
    )


def find_capacity(connection: Connection, pool: str, capacity: float | None) -> None:
    """Records the measured capacity of a pool, unless an operator has set a fixed capacity.

    Args:
        connection: A connection with an open transaction.
        pool: The pool's name.
        capacity: Number of units of the pool's nodes; None if the nodes cannot be listed. A new
            pool then gets the capacity `UNKNOWN`, and a known pool keeps its capacity.
    """
    found = upsert(pools).values(
        name=pool, capacity=UNKNOWN if capacity is None else capacity, is_fixed=False
    )
    if capacity is None:
        connection.execute(found.on_conflict_do_nothing())
    else:
        connection.execute(
            found.on_conflict_do_update(
                index_elements=["name"],
                set_={"capacity": capacity},
                where=pools.c.is_fixed.is_(False),
            )
        )


def why_never(connection: Connection, pool: str, amount: float) -> str | None:
    """Returns why a trial can never get its units from a pool, or None if it can.

    A trial can never get more units (`amount`) than the fixed capacity of the pool.
    """
    row = connection.execute(select(pools).where(pools.c.name == pool)).one_or_none()
    if row is not None and row.is_fixed and amount > row.capacity + 1e-9:
        return f"a trial needs {amount:g} units of the pool {pool}, which has {row.capacity:g}"
    return None


def take(
    connection: Connection,
    *,
    pool: str,
    amount: float,
    study_id: int,
    trial: int,
    segment_id: str,
    at_most: int,
) -> str | None:
    """Inserts a lease for a segment, or returns the reason why no lease is available.

    The pool's row is locked until the commit, so that concurrent requests cannot exceed the
    capacity. A study that already holds leases gets no further lease while another study is
    queued for the same pool and holds fewer leases.

    Args:
        connection: A connection with an open transaction.
        pool: The pool's name.
        amount: Number of units to lease; a fraction if several trials share a unit.
        study_id: Id of the segment's study.
        trial: Number of the segment's trial.
        segment_id: Id of the segment.
        at_most: Number of leases that the study may hold at the same time (its slots).

    Returns:
        None if the lease was inserted, otherwise the reason why it was refused.

    Raises:
        LookupError: The pool does not exist.
    """
    row = connection.execute(
        select(pools).where(pools.c.name == pool).with_for_update()
    ).one_or_none()
    if row is None:
        raise LookupError(f"there is no pool {pool}")
    capacity = row.capacity
    held, mine = _held(connection, pool, study_id)
    if mine >= at_most:
        return f"{mine} of the study's {at_most} slots are in use"
    if mine and (other := _needier(connection, pool, study_id, mine)):
        return f"study {other} is queued for the pool {pool} and holds fewer leases: it goes first"
    if held + amount > capacity + 1e-9 and not _is_alone(row, held):
        return (
            f"{held:g} of {capacity:g} units of the pool {pool} are leased, and {amount:g} needed"
        )
    connection.execute(
        leases.insert().values(
            segment_id=segment_id,
            study_id=study_id,
            trial=trial,
            pool=pool,
            amount=amount,
            expires_at=func.now() + LEASE_TIME,
        )
    )
    return None


@dataclass(frozen=True)
class Room:
    """The units of a pool that are available to one study.

    Attributes:
        amount: Number of units that the study may hold in total, including the units that it
            already holds; None if the capacity of the pool is not known.
        free: Number of units of the pool that no study has leased.
    """

    amount: float | None
    free: float


def room(connection: Connection, *, pool: str, study_id: int) -> Room:
    """Returns the units that a study may hold without taking units from other studies.

    The study may hold every unit that no other study holds or is queued for. It may in any case
    hold an equal share (the capacity divided by the number of studies that use the pool), as far
    as the units held by other studies allow.
    """
    row = connection.execute(select(pools).where(pools.c.name == pool)).one_or_none()
    if row is None:
        return Room(0.0, 0.0)
    held, _ = _held(connection, pool, study_id)
    if row.capacity >= UNKNOWN:
        return Room(None, row.capacity - held)
    others = connection.execute(
        select(leases.c.study_id, func.sum(leases.c.amount).label("amount"))
        .where(leases.c.pool == pool, leases.c.study_id != study_id)
        .group_by(leases.c.study_id)
    )
    theirs = {other.study_id: float(other.amount) for other in others}
    queued = _queued_amounts(connection, pool, study_id)
    even = row.capacity / (1 + len({*theirs, *queued}))
    left = row.capacity - sum(theirs.values())
    return Room(min(left, max(left - sum(queued.values()), even)), row.capacity - held)


def _queued_amounts(connection: Connection, pool: str, study_id: int) -> dict[int, float]:
    """Returns the units of a pool that trials of other studies are queued for, by study id."""
    rows = connection.execute(
        select(studies.c.id, (studies.c.lease * func.count()).label("amount"))
        .join(trials, trials.c.study_id == studies.c.id)
        .where(
            studies.c.state.in_(STARTING),
            studies.c.id != study_id,
            studies.c.pool == pool,
            trials.c.queued_at > func.now() - QUEUED_TIME,
        )
        .group_by(studies.c.id)
    )
    return {row.id: float(row.amount) for row in rows}


def count_free(
    connection: Connection, *, pool: str, study_id: int, at_most: int, amount: float = 1.0
) -> int:
    """Returns how many more segments of a study could get a lease now.

    Args:
        connection: A connection with an open transaction.
        pool: The pool's name.
        study_id: Id of the study.
        at_most: Number of leases that the study may hold at the same time (its slots).
        amount: Number of units that each segment needs.
    """
    row = connection.execute(select(pools).where(pools.c.name == pool)).one_or_none()
    if row is None:
        return 0
    held, mine = _held(connection, pool, study_id)
    fitting = int((row.capacity - held) / amount + 1e-9)
    if _is_alone(row, held):
        fitting = max(fitting, 1)
    return max(min(fitting, at_most - mine), 0)


def _is_alone(row: Row[Any], held: float) -> bool:
    """Returns whether a pool has a measured (not a fixed) capacity and no unit of it is leased.

    Such a pool leases more units than were measured to a single segment, because the cluster may
    add nodes.
    """
    return held == 0 and not row.is_fixed


QUEUED_TIME = timedelta(seconds=15)
"""Time for which a trial counts as queued after its request for a lease was refused."""


def _needier(connection: Connection, pool: str, study_id: int, mine: int) -> str | None:
    """Returns the name of another study that gets the next lease on a pool first.

    Such a study is queued for the pool and holds fewer leases on the pool than `mine`, the number
    of leases of the given study. Returns None if no such study exists.
    """
    holds = (
        select(func.count())
        .where(leases.c.study_id == trials.c.study_id, leases.c.pool == pool)
        .scalar_subquery()
    )
    return connection.execute(
        select(studies.c.name)
        .join(trials, trials.c.study_id == studies.c.id)
        .where(
            studies.c.state.in_(STARTING),
            studies.c.id != study_id,
            studies.c.pool == pool,
            trials.c.queued_at > func.now() - QUEUED_TIME,
            holds < mine,
        )
        .limit(1)
    ).scalar_one_or_none()


def mark_queued(connection: Connection, *, study_id: int, numbers: Sequence[int]) -> None:
    """Records that trials are queued for a lease, so that `take` and `room` consider them."""
    connection.execute(
        update(trials)
        .where(trials.c.study_id == study_id, trials.c.number.in_(numbers))
        .values(queued_at=func.now())
    )


def _held(connection: Connection, pool: str, study_id: int) -> tuple[float, int]:
    """Deletes expired leases on a pool and counts the other leases.

    Returns:
        The number of units of the pool that all studies have leased, and the number of leases on
        the pool that the given study holds.
    """
    has_expired = leases.c.expires_at < func.now()
    sums = select(
        func.coalesce(func.sum(leases.c.amount), 0.0),
        func.count().filter(leases.c.study_id == study_id),
        func.count().filter(has_expired),
    ).where(leases.c.pool == pool)
    held, mine, expired = connection.execute(sums).one()
    if expired:
        # A lease that another transaction renews or deletes is locked: it is counted as held.
        gone = select(leases.c.segment_id).where(leases.c.pool == pool, has_expired)
        connection.execute(
            delete(leases).where(leases.c.segment_id.in_(gone.with_for_update(skip_locked=True)))
        )
        held, mine, _ = connection.execute(sums).one()
    return float(held), int(mine)


def renew(connection: Connection, segment_id: str) -> bool:
    """Extends a segment's lease to `LEASE_TIME` from now; returns False if it was deleted."""
    renewed = connection.execute(
        update(leases)
        .where(leases.c.segment_id == segment_id)
        .values(expires_at=func.now() + LEASE_TIME)
    )
    return renewed.rowcount > 0
