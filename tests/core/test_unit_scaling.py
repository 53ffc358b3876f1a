"""Speed by the number of units."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core.unit_scaling import speedup
from tests.allocators.scored_studies import IMAGENET

TABLE = (1.0, 1.77, 2.93, 4.29)


@pytest.mark.parametrize(
    ("width", "speed"),
    [(1, 1.0), (2, 1.77), (3, 2.35), (4, 2.93), (6, 3.61), (8, 4.29), (16, 4.29)],
)
def test_the_speed_is_interpolated_in_the_table(width: int, speed: float) -> None:
    assert speedup(width, TABLE) == pytest.approx(speed)


@pytest.mark.parametrize("table", [(), TABLE])
def test_a_share_of_a_unit_has_that_share_of_its_speed(table: tuple[float, ...]) -> None:
    assert speedup(Fraction(1, 4), table) == 0.25


def test_without_a_table_the_speed_is_the_width() -> None:
    assert speedup(7) == 7.0


@given(st.integers(1, 40), st.integers(1, 40))
def test_more_units_are_never_slower(one: int, other: int) -> None:
    assert (speedup(max(one, other), TABLE)) >= speedup(min(one, other), TABLE)


def test_speed_is_interpolated() -> None:
    assert speedup(7, IMAGENET) == pytest.approx(3.95)
    assert speedup(16, IMAGENET) == 4.29
    assert speedup(Fraction(1, 2), IMAGENET) == 0.5
    assert speedup(3) == 3.0
