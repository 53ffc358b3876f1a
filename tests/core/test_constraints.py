"""Constraints: their arithmetic, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core.constraints import MAX_LENGTH, UNDEFINED, Constraint


@pytest.mark.parametrize(
    ("text", "violation"),
    [
        ("width * depth <= 512", 128),
        ("width * depth >= 512", -128),
        ("-width + 2 * depth <= 0", -44),
        ("abs(depth - width) <= 60", -6),
        ("min(width, depth) >= 12", 2),
        ("max(width, depth, 100) <= 99", 1),
        ("width / depth <= 6.4", 0),
    ],
)
def test_a_violation_is_what_arithmetic_gives(text: str, violation: float) -> None:
    found = Constraint(text).violation({"width": 64, "depth": 10})
    assert found == pytest.approx(violation)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_a_constraint_is_satisfied_if_and_only_if_its_violation_is_not_positive(
    a: float, b: float
) -> None:
    violation = Constraint("a <= b").violation({"a": a, "b": b})
    assert violation is not None
    assert (violation <= 0) is (a <= b)


def test_the_names_are_those_of_both_sides() -> None:
    assert Constraint("log(lr) + 2 * width <= latency").names == {"lr", "width", "latency"}


@pytest.mark.parametrize("value", [None, "64", True])
def test_a_name_without_a_number_has_no_violation(value: object) -> None:
    assert Constraint("width <= 512").violation({"width": value}) is None
    assert Constraint("width <= 512").violation({}) is None


@pytest.mark.parametrize(
    ("text", "value"), [("1 / width <= 1", 0), ("log(width) <= 1", -1), ("width * 1e308 <= 1", 9)]
)
def test_a_side_that_cannot_be_computed_is_a_violation(text: str, value: float) -> None:
    violation = Constraint(text).violation({"width": value})
    assert violation is not None
    assert violation >= UNDEFINED


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("width < 5", "must have one <= or >="),
        ("1 <= width <= 5", "must have one <= or >="),
        ("width", "must have one <= or >="),
        ("width <=", "but must be like width"),
        ("width ** 2 <= 5", "may only have names, numbers"),
        ("open('x') <= 5", "may only have names, numbers"),
        ("width.real <= 5", "may only have names, numbers"),
        ("True <= width", "may only have names, numbers"),
        ("[1][0] <= width", "may only have names, numbers"),
        ("w" * MAX_LENGTH + " <= 1", f"must have {MAX_LENGTH} or less"),
    ],
)
def test_a_text_that_is_no_constraint_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Constraint(text)
