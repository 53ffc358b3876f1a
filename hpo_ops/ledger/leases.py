"""Leases: the ledger's word that a trial holds some of a pool's capacity, until it expires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from hpo_ops.ledger.schema import leases, pools, studies, trials

LEASE_TIME = timedelta(seconds=120)
"""How long a lease lasts when nobody renews it."""
STARTING = ("running", "retraining")
"""States of studies that start segments."""
UNKNOWN = 1_000_000.0
"""Capacity of a pool of which nobody knows how much it has."""


def set_capacity(connection: Connection, pool: str, capacity: float) -> None:
    """Says how much a pool has, and that nobody else is to say otherwise."""
    fixed = {"capacity": capacity, "is_fixed": True}
    connection.execute(
        upsert(pools)
        .values(name=pool, **fixed)
        .on_conflict_do_update(index_elements=["name"], set_=fixed)
    )


def find_capacity(connection: Connection, pool: str, capacity: float | None) -> None:
    """Says how much a pool was found to have, unless it was set.

    Args:
        connection: A transaction.
        pool: The pool's name.
        capacity: What its nodes have; None where they cannot be seen, so that the cluster itself
            has to queue what does not fit.
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
    """Why a pool will never have so much to give; None where it may."""
    row = connection.execute(select(pools).where(pools.c.name == pool)).one_or_none()
    if row is not None and row.is_fixed and amount > row.capacity + 1e-9:
        return f"it needs {amount:g} of the pool {pool}, which has {row.capacity:g}"
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
    """Takes some of a pool for a segment, or says why not.

    The pool's row is locked, so that what is leased never exceeds what there is.

    Args:
        connection: A transaction.
        pool: The pool's name.
        amount: Units, or a fraction of one.
        study_id: The study that asks.
        trial: The trial that asks.
        segment_id: The segment that will hold it.
        at_most: Segments that the study may have at the same time.

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
        return f"{mine} of {at_most} trials of the study run"
    if mine and (other := _needier(connection, pool, study_id, mine)):
        return f"study {other} waits for the pool {pool} and has less of it"
    if held + amount > capacity + 1e-9 and not _is_alone(row, held):
        return f"{held:g} of {capacity:g} in the pool {pool} are taken"
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
    """What a study may have of a pool.

    Attributes:
        amount: All that it may hold; None where nobody knows what the pool has.
        free: What of the pool nobody holds.
    """

    amount: float | None
    free: float


def room(connection: Connection, *, pool: str, study_id: int) -> Room:
    """What a study may hold of a pool: what others neither hold nor wait for.

    It is never less than an even share among the studies that have a part in the pool, as far as
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
    """How many segments of a study could take so much of a pool now."""
    row = connection.execute(select(pools).where(pools.c.name == pool)).one_or_none()
    if row is None:
        return 0
    held, mine = _held(connection, pool, study_id)
    places = int((row.capacity - held) / amount + 1e-9)
    if _is_alone(row, held):
        places = max(places, 1)
    return max(min(places, at_most - mine), 0)


def _is_alone(row: Row[Any], held: float) -> bool:
    """Whether all of a pool is free whose capacity was found, not set.

    Who asks for more than that is let through: nodes may be added for it.
    """
    return held == 0 and not row.is_fixed


QUEUED_TIME = timedelta(seconds=15)
"""How long a trial that asked for a place counts as waiting for it."""


def _needier(connection: Connection, pool: str, study_id: int, mine: int) -> str | None:
    """The name of another study that waits for the pool and holds less of it, if there is one."""
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
    """Says that trials wait for a place, so that others leave them their share."""
    connection.execute(
        update(trials)
        .where(trials.c.study_id == study_id, trials.c.number.in_(numbers))
        .values(queued_at=func.now())
    )


def _held(connection: Connection, pool: str, study_id: int) -> tuple[float, int]:
    """What is leased of a pool, and by how many segments of the study."""
    has_expired = leases.c.expires_at < func.now()
    sums = select(
        func.coalesce(func.sum(leases.c.amount), 0.0),
        func.count().filter(leases.c.study_id == study_id),
        func.count().filter(has_expired),
    ).where(leases.c.pool == pool)
    held, mine, expired = connection.execute(sums).one()
    if expired:
        # One that its holder renews or gives back now still counts: nobody waits for it.
        gone = select(leases.c.segment_id).where(leases.c.pool == pool, has_expired)
        connection.execute(
            delete(leases).where(leases.c.segment_id.in_(gone.with_for_update(skip_locked=True)))
        )
        held, mine, _ = connection.execute(sums).one()
    return float(held), int(mine)


def renew(connection: Connection, segment_id: str) -> bool:
    """Keeps a lease for another while; False where it is gone."""
    renewed = connection.execute(
        update(leases)
        .where(leases.c.segment_id == segment_id)
        .values(expires_at=func.now() + LEASE_TIME)
    )
    return renewed.rowcount > 0
