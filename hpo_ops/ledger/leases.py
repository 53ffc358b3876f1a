"""Leases: records that a segment holds units of a pool until a given time.

Heartbeats extend a lease. An expired lease is deleted when another segment asks for units of the
pool. Every function works within the caller's transaction.
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
"""How long a lease lasts without a heartbeat."""
STARTING = ("running", "retraining")
"""States of studies that start segments and may be queued for units."""
UNKNOWN = 1_000_000.0
"""Capacity of a pool whose capacity is not known: the cluster queues what does not fit."""


def set_capacity(connection: Connection, pool: str, capacity: float) -> None:
    """Sets the capacity of a pool. Measurements by `find_capacity` do not change it any more."""
    fixed = {"capacity": capacity, "is_fixed": True}
    connection.execute(
        upsert(pools)
        .values(name=pool, **fixed)
        .on_conflict_do_update(index_elements=["name"], set_=fixed)
    )


def find_capacity(connection: Connection, pool: str, capacity: float | None) -> None:
    """Records the measured capacity of a pool, unless a person has set it.

    Args:
        connection: A transaction.
        pool: The pool's name.
        capacity: Units that its nodes have; None if they cannot be listed. The cluster itself then
            queues what does not fit.
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
    """Why a pool can never lease an amount; None if it may be able to."""
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
    """Takes a lease for a segment, or says why there is none to be had.

    The pool's row is locked until the commit, so that leases never exceed its capacity. A study
    that holds leases stands back for a study that is queued and holds fewer.

    Args:
        connection: A transaction.
        pool: The pool's name.
        amount: Units, or a fraction of one.
        study_id: The segment's study.
        trial: The segment's trial.
        segment_id: The segment.
        at_most: Slots of the study: leases that it may hold at the same time.

    Returns:
        None where the lease was taken, else the reason why it was not.
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
    """The units of a pool that a study may hold.

    Attributes:
        amount: All units that it may hold; None if the capacity of the pool is not known.
        free: Units of the pool that are not leased.
    """

    amount: float | None
    free: float


def room(connection: Connection, *, pool: str, study_id: int) -> Room:
    """The units that a study may hold: those that other studies neither hold nor are queued for.

    It may always hold an even share among the studies that use the pool, as far as the leases of
    the others leave it.
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
    """What the queued trials of other studies need of a pool, by study."""
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
    """How many segments of a study could take a lease of an amount now."""
    row = connection.execute(select(pools).where(pools.c.name == pool)).one_or_none()
    if row is None:
        return 0
    held, mine = _held(connection, pool, study_id)
    fitting = int((row.capacity - held) / amount + 1e-9)
    if _is_alone(row, held):
        fitting = max(fitting, 1)
    return max(min(fitting, at_most - mine), 0)


def _is_alone(row: Row[Any], held: float) -> bool:
    """Whether a pool with a measured capacity has no lease.

    A segment that needs more than such a pool has gets its lease: the cluster may add nodes.
    """
    return held == 0 and not row.is_fixed


QUEUED_TIME = timedelta(seconds=15)
"""How long a trial counts as queued after it asked for a lease in vain."""


def _needier(connection: Connection, pool: str, study_id: int, mine: int) -> str | None:
    """The name of a study that is queued for the pool and holds fewer leases; None without."""
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
    """Records that trials are queued, so that other studies leave them their share."""
    connection.execute(
        update(trials)
        .where(trials.c.study_id == study_id, trials.c.number.in_(numbers))
        .values(queued_at=func.now())
    )


def _held(connection: Connection, pool: str, study_id: int) -> tuple[float, int]:
    """The units of a pool that are leased, and the number of leases of the study."""
    has_expired = leases.c.expires_at < func.now()
    sums = select(
        func.coalesce(func.sum(leases.c.amount), 0.0),
        func.count().filter(leases.c.study_id == study_id),
        func.count().filter(has_expired),
    ).where(leases.c.pool == pool)
    held, mine, expired = connection.execute(sums).one()
    if expired:
        # A lease that is being renewed or released right now is locked and still counts.
        gone = select(leases.c.segment_id).where(leases.c.pool == pool, has_expired)
        connection.execute(
            delete(leases).where(leases.c.segment_id.in_(gone.with_for_update(skip_locked=True)))
        )
        held, mine, _ = connection.execute(sums).one()
    return float(held), int(mine)


def renew(connection: Connection, segment_id: str) -> bool:
    """Extends a lease by `LEASE_TIME`; False if it has expired and was deleted."""
    renewed = connection.execute(
        update(leases)
        .where(leases.c.segment_id == segment_id)
        .values(expires_at=func.now() + LEASE_TIME)
    )
    return renewed.rowcount > 0
