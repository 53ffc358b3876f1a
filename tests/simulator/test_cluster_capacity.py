"""The simulated cluster."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hpo_ops.core import Capacity
from hpo_ops.simulator import Cluster


def test_a_share_is_slowed_down_by_the_overhead_of_its_neighbours() -> None:
    cluster = Cluster(units=2, max_share=4, sharing_overhead=(0.25, 1.0))
    assert cluster.speed(Fraction(1, 2)) == pytest.approx(0.4)
    assert cluster.speed(Fraction(1, 3)) == pytest.approx(1 / 6)
    assert cluster.speed(Fraction(1, 4)) == pytest.approx(1 / 8)  # the last entry holds for more


def test_several_units_are_as_fast_as_the_table_says() -> None:
    cluster = Cluster(units=4, max_width=4, speedups=(1.0, 1.77, 2.93))
    assert cluster.speed(Fraction(4)) == 2.93
    assert Cluster(units=4, max_width=4).speed(Fraction(4)) == 4.0


def test_the_capacity_has_the_units_of_the_moment() -> None:
    assert Cluster(units=4, max_share=2, max_width=3).capacity(7) == Capacity(7, 2, 3)


@pytest.mark.parametrize(
    ("option", "value", "least"),
    [("units", 0, 1), ("start_seconds", -1.0, 0), ("max_share", 0, 1)],
)
def test_an_impossible_cluster_is_refused(option: str, value: float, least: int) -> None:
    options = {"units": 1, option: value}
    with pytest.raises(ValueError, match=f"{option} is {value}, but must be {least} or more"):
        Cluster(**options)  # type: ignore[arg-type]
