"""Leases: never more than there is, whoever asks at the same time."""

from __future__ import annotations

import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, func, select, text, update

from hpo_ops.ledger import Ledger
from hpo_ops.ledger._schema import leases
from hpo_ops.ledger.leases import (
    LEASE_TIME,
    count_free,
    find_capacity,
    renew,
    set_capacity,
    take,
    why_never,
)
from tests.ledger.conftest import start


def take_one(
    connection: Connection,
    study_id: int,
    *,
    amount: float = 1.0,
    at_most: int = 1000,
    segment: str | None = None,
    pool: str = "gpu",
) -> str | None:
    return take(
        connection,
        pool=pool,
        amount=amount,
        study_id=study_id,
        trial=0,
        segment_id=segment or uuid.uuid4().hex,
        at_most=at_most,
    )


def give_back(connection: Connection, segment: str) -> None:
    connection.execute(delete(leases).where(leases.c.segment_id == segment))


def let_expire(ledger: Ledger, *segments: str) -> None:
    with ledger.engine.begin() as connection:
        connection.execute(
            update(leases)
            .where(leases.c.segment_id.in_(segments))
            .values(expires_at=func.now() - timedelta(seconds=1))
        )


@pytest.fixture
def study_id(ledger: Ledger) -> int:
    with ledger.engine.begin() as connection:
        set_capacity(connection, "gpu", 2)
    return start(ledger).id


def test_what_is_full_is_refused_with_numbers(ledger: Ledger, study_id: int) -> None:
    with ledger.engine.begin() as connection:
        assert take_one(connection, study_id) is None
        assert take_one(connection, study_id) is None
        assert (
            take_one(connection, study_id)
            == "2 of 2 units of the pool gpu are leased, and 1 needed"
        )
        assert count_free(connection, pool="gpu", study_id=study_id, at_most=9) == 0


def test_a_pool_that_was_found_lets_more_than_it_has_through_alone(
    ledger: Ledger, study_id: int
) -> None:
    with ledger.engine.begin() as connection:
        find_capacity(connection, "big", 2)
        assert why_never(connection, "big", 3) is None
        assert count_free(connection, pool="big", study_id=study_id, at_most=9, amount=3) == 1
        assert take_one(connection, study_id, pool="big", amount=3) is None
        assert count_free(connection, pool="big", study_id=study_id, at_most=9, amount=3) == 0
        refusal = take_one(connection, study_id, pool="big", amount=3)
        assert refusal == "3 of 2 units of the pool big are leased, and 3 needed"


def test_a_pool_that_was_set_says_what_it_will_never_have(ledger: Ledger, study_id: int) -> None:
    with ledger.engine.begin() as connection:
        find_capacity(connection, "gpu", 100)  # what was set before counts
        assert why_never(connection, "gpu", 2) is None
        assert (
            why_never(connection, "gpu", 3) == "a trial needs 3 units of the pool gpu, which has 2"
        )
        assert (
            take_one(connection, study_id, amount=3)
            == "0 of 2 units of the pool gpu are leased, and 3 needed"
        )
        assert count_free(connection, pool="gpu", study_id=study_id, at_most=9, amount=0.5) == 4


def test_an_unknown_pool_is_an_error(ledger: Ledger, study_id: int) -> None:
    with (
        ledger.engine.begin() as connection,
        pytest.raises(LookupError, match="there is no pool tpu"),
    ):
        take_one(connection, study_id, pool="tpu")


def test_a_study_takes_no_more_than_its_parallelism(ledger: Ledger, study_id: int) -> None:
    other = start(ledger, "other").id
    with ledger.engine.begin() as connection:
        set_capacity(connection, "gpu", 10)
        assert take_one(connection, study_id, at_most=1) is None
        assert count_free(connection, pool="gpu", study_id=study_id, at_most=1) == 0
        refusal = take_one(connection, study_id, at_most=1)
        assert refusal == "1 of the study's 1 slots are in use"
        assert take_one(connection, other, at_most=1) is None
        assert count_free(connection, pool="gpu", study_id=other, at_most=4) == 3


def test_shares_of_a_unit_fill_it_exactly(ledger: Ledger, study_id: int) -> None:
    with ledger.engine.begin() as connection:
        set_capacity(connection, "gpu", 1)
        taken = [take_one(connection, study_id, amount=0.1) for _ in range(11)]
    assert taken[:10] == [None] * 10
    assert taken[10] is not None


def test_what_nobody_renews_is_free_again(ledger: Ledger, study_id: int) -> None:
    with ledger.engine.begin() as connection:
        for segment in ("dead", "alive"):
            assert take_one(connection, study_id, segment=segment) is None
    let_expire(ledger, "dead", "alive")
    with ledger.engine.begin() as connection:
        assert renew(connection, "alive")
    with ledger.engine.begin() as connection:
        assert count_free(connection, pool="gpu", study_id=study_id, at_most=9) == 1
        assert take_one(connection, study_id) is None
        assert take_one(connection, study_id) is not None
    with ledger.engine.begin() as connection:
        assert not renew(connection, "dead")
        left = connection.execute(
            select(leases.c.expires_at - func.now()).where(leases.c.segment_id == "alive")
        ).scalar_one()
    assert LEASE_TIME - timedelta(seconds=30) < left <= LEASE_TIME


def test_a_lease_that_is_rolled_back_was_never_taken(ledger: Ledger, study_id: int) -> None:
    with ledger.engine.connect() as connection:
        take_one(connection, study_id)
        connection.rollback()
        assert count_free(connection, pool="gpu", study_id=study_id, at_most=9) == 2


def test_less_capacity_takes_nothing_away_but_gives_nothing_new(
    ledger: Ledger, study_id: int
) -> None:
    with ledger.engine.begin() as connection:
        assert take_one(connection, study_id, segment="a") is None
        assert take_one(connection, study_id, segment="b") is None
        set_capacity(connection, "gpu", 1)
        assert count_free(connection, pool="gpu", study_id=study_id, at_most=9) == 0
        give_back(connection, "a")
        assert (
            take_one(connection, study_id)
            == "1 of 1 units of the pool gpu are leased, and 1 needed"
        )


def test_many_takers_at_once_never_exceed_the_capacity(ledger: Ledger, study_id: int) -> None:
    takers, capacity = 8, 3
    other = start(ledger, "other").id
    with ledger.engine.begin() as connection:
        set_capacity(connection, "gpu", capacity)
    barrier = Barrier(takers)

    def work(number: int) -> tuple[int, float]:
        """Takes and gives back in turns; counts what it got and the most it ever saw held."""
        draw = random.Random(number)  # noqa: S311  a seed, not a secret
        barrier.wait()
        got, most = 0, 0.0
        for turn in range(12):
            segment = f"{number}/{turn}"
            amount = draw.choice([0.5, 1.0])
            with ledger.engine.begin() as connection:
                refusal = take_one(
                    connection, (study_id, other)[number % 2], amount=amount, segment=segment
                )
            got += refusal is None
            with ledger.engine.begin() as connection:
                seen = connection.execute(select(func.sum(leases.c.amount))).scalar_one() or 0.0
                most = max(most, seen)
                give_back(connection, segment)
        return got, most

    with ThreadPoolExecutor(takers) as pool:
        results = list(pool.map(work, range(takers)))
    assert max(most for _, most in results) <= capacity
    assert all(got > 0 for got, _ in results)


def test_a_taker_does_not_wait_for_a_lease_that_is_just_given_back(
    ledger: Ledger, study_id: int
) -> None:
    """Its holder may be on the way to take another: the two would wait for each other."""
    with ledger.engine.begin() as connection:
        assert take_one(connection, study_id, segment="old") is None
    let_expire(ledger, "old")
    with ledger.engine.begin() as holder:
        give_back(holder, "old")
        with ledger.engine.begin() as taker:
            taker.execute(text("SET LOCAL lock_timeout = '2s'"))
            assert take_one(taker, study_id) is None
            assert (
                take_one(taker, study_id)
                == "2 of 2 units of the pool gpu are leased, and 1 needed"
            )
        assert take_one(holder, study_id) is None


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    capacity=st.integers(0, 4),
    moves=st.lists(
        st.tuples(st.sampled_from(["take", "free", "expire", "renew"]), st.integers(0, 5)),
        max_size=20,
    ),
)
def test_leases_follow_their_model(
    ledger: Ledger, study_id: int, capacity: int, moves: list[tuple[str, int]]
) -> None:
    """Takes, frees, expiries and renewals in any order, beside a set that says what is held."""
    held: set[str] = set()
    lapsed: set[str] = set()
    with ledger.engine.begin() as connection:
        connection.execute(delete(leases))
        set_capacity(connection, "gpu", capacity)
    for turn, (move, which) in enumerate(moves):
        known = sorted(held | lapsed)
        segment = known[which % len(known)] if known and move != "take" else f"new {turn}"
        if move == "expire":
            let_expire(ledger, segment)
            if segment in held:
                held.remove(segment)
                lapsed.add(segment)
            continue
        with ledger.engine.begin() as connection:
            if move == "take":
                taken = take_one(connection, study_id, segment=segment) is None
                assert taken == (len(held) < capacity)
                lapsed.clear()  # a taker clears them away
                held |= {segment} if taken else set()
            elif move == "free":
                give_back(connection, segment)
                held.discard(segment)
                lapsed.discard(segment)
            else:
                assert renew(connection, segment) == (segment in held | lapsed)
                held |= {segment} & lapsed
                lapsed.discard(segment)
    with ledger.engine.begin() as connection:
        left = count_free(connection, pool="gpu", study_id=study_id, at_most=1000)
    assert left == max(capacity - len(held), 0)
