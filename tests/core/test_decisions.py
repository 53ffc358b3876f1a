"""Decisions: each has a reason, and equal ones are equal."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from hpo_ops.core import Action, Allocation, Capacity, Decision, Member, Placement, TrialGroup


@pytest.mark.parametrize("reason", ["", "  \n"])
@pytest.mark.parametrize(
    "make",
    [
        lambda reason: Decision(Action.STOP, reason),
        lambda reason: Member(reason),
        lambda reason: TrialGroup((), reason),
        lambda reason: Allocation({}, (), reason),
    ],
    ids=["decision", "member", "group", "allocation"],
)
def test_an_answer_without_a_reason_is_refused(make: Callable[[str], object], reason: str) -> None:
    with pytest.raises(ValueError, match="every decision must say why"):
        make(reason)


def test_decisions_are_values() -> None:
    first, second = Decision(Action.PAUSE, "full"), Decision(Action.PAUSE, "full")
    assert first == second
    assert hash(first) == hash(second)
    assert first != Decision(Action.STOP, "full")


def test_a_group_is_as_long_as_its_members() -> None:
    assert len(TrialGroup((Member("new"), Member("resumed", 3)), "two slots")) == 2


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"units": -1}, "units is -1, but must be 0 or more"),
        ({"units": 1, "max_share": 0}, "max_share is 0, but must be 1 or more"),
        ({"units": 1, "max_width": 0}, "max_width is 0, but must be 1 or more"),
    ],
)
def test_an_impossible_capacity_is_refused(values: dict[str, int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Capacity(**values)


def test_a_placement_has_width_and_units() -> None:
    width, units = Placement(Fraction(1, 2), (3,))
    assert (width, units) == (Fraction(1, 2), (3,))
