from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest

from hpo_ops.protocol import Message, ProtocolError
from hpo_ops.protocol._decoding import decoder


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Leaf(Message):
    size: int
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class Tree(Message):
    colour: Colour
    leaves: list[Leaf] = field(default_factory=list)
    best: Leaf | None = None
    heights: dict[str, float] = field(default_factory=dict)
    points: list[tuple[int, float]] = field(default_factory=list)
    value: bool | int | float | str | None = None
    is_old: bool = False
    anything: dict[str, Any] = field(default_factory=dict)


TREE = Tree(
    colour=Colour.BLUE,
    leaves=[Leaf(size=1), Leaf(size=2, label="b")],
    best=Leaf(size=2, label="b"),
    heights={"now": 1.5, "then": 1},
    points=[(1, 0.5)],
    value=3,
    is_old=True,
    anything={"a": [1, {"b": None}]},
)


def test_a_message_with_every_kind_of_field_comes_back_as_it_was() -> None:
    again = Tree.from_json(TREE.to_json())
    assert again == TREE
    assert isinstance(again.leaves[0], Leaf)
    assert again.colour is Colour.BLUE
    assert again.points == [(1, 0.5)]


def test_numbers_are_not_converted() -> None:
    again = Tree.from_dict({"colour": "red", "heights": {"now": 1}, "value": True})
    assert isinstance(again.heights["now"], int)
    assert again.value is True


def test_fields_that_a_reader_does_not_know_are_ignored_at_every_depth() -> None:
    data = {"colour": "red", "newer": 1, "leaves": [{"size": 1, "newer": 2}]}
    assert Tree.from_dict(data) == Tree(colour=Colour.RED, leaves=[Leaf(size=1)])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"colour": "green"}, "Tree: colour is 'green', but must be one of red, blue"),
        ({"colour": ["red"]}, r"Tree: colour is \['red'\], but must be one of red, blue"),
        ({"is_old": 1}, "Tree: is_old is 1, but must be true or false"),
        ({"leaves": {}}, "Tree: leaves is {}, but must be a list"),
        ({"leaves": [{"size": 1}, {}]}, r"Tree: leaves\[1\] size is missing"),
        ({"leaves": [{"size": True}]}, r"leaves\[0\].size is True, but must be an integer"),
        ({"best": {"size": "2"}}, "best.size is '2', but must be an integer"),
        ({"best": 3}, "Tree: best is int, but must be an object"),
        ({"best": {"size": 1, "label": 4}}, "best.label is 4, but must be text or null"),
        ({"heights": {"now": "1"}}, r"heights\['now'\] is '1', but must be a number"),
        ({"points": [[1]]}, r"points\[0\] is \[1\], but must be a list of 2"),
        ({"value": []}, r"value is \[\], but must be true or false or an integer"),
    ],
)
def test_a_wrong_field_is_named_with_what_it_must_be(change: Any, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        Tree.from_dict({"colour": "red", **change})


def test_a_type_that_no_message_can_have_is_a_programming_error() -> None:
    with pytest.raises(TypeError, match="cannot be the type of a message's field"):
        decoder(set)
