"""The search space: ranges, conditions, and an order that is always the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core.search_space import Categorical, Float, Int, Parameter, Space


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (Float, {"low": 2, "high": 1}, "is from 2 to 1, but the low end must not be above"),
        (Float, {"low": 0, "high": 1, "log": True}, "starts at 0, but must start above 0"),
        (Float, {"low": -1, "high": 1, "log": True}, "starts at -1, but must start above 0"),
        (Float, {"low": 1, "high": 2, "log": True, "step": 0.1}, "has log and step"),
        (Float, {"low": 1, "high": 2, "step": 0.0}, "has step 0, but it must be above 0"),
        (Float, {"low": 1, "high": 2, "step": -1.0}, "has step -1, but it must be above 0"),
        (Int, {"low": 2, "high": 1}, "is from 2 to 1"),
        (Int, {"low": 0, "high": 1, "log": True}, "starts at 0"),
        (Int, {"low": 1, "high": 9, "log": True, "step": 2}, "has log and step"),
        (Int, {"low": 1, "high": 9, "step": 0}, "has step 0"),
        (Categorical, {"choices": ()}, "has no choices, but must have one or more"),
        (Categorical, {"choices": ("a", "b", "a")}, "but each must appear once"),
        (Categorical, {"choices": (1, True)}, "but each must appear once"),
        (Categorical, {"choices": (1, 1.0)}, "but each must appear once"),
    ],
)
def test_a_range_that_cannot_be_is_refused(
    kind: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**arguments)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (Float, {"low": 1, "high": 1}),
        (Float, {"low": -1, "high": 0}),
        (Float, {"low": 1e-9, "high": 1, "log": True}),
        (Int, {"low": 1, "high": 1, "log": True}),
        (Int, {"low": -4, "high": 4, "step": 3}),
        (Categorical, {"choices": (None,)}),
        (Categorical, {"choices": ("1", 1, None, 2.5)}),
    ],
)
def test_a_range_at_the_edge_is_fine(kind: Any, arguments: dict[str, Any]) -> None:
    assert kind(**arguments).when == {}


CHOICE = Categorical(choices=("adam", "sgd"))


def test_an_empty_space_is_refused() -> None:
    with pytest.raises(ValueError, match="is empty, but must have one parameter or more"):
        Space({})


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ({"other": ("sgd",)}, r"b\.when names other, but the parameters are \['a', 'b', 'n'\]"),
        ({"a": ("rmsprop",)}, r"b\.when asks for a = 'rmsprop', but its choices are"),
        ({"a": ("sgd", None)}, r"b\.when asks for a = None"),
        ({"n": (5,)}, r"b\.when asks for n = 5, but it is from 1 to 4"),
        ({"n": ("2",)}, r"b\.when asks for n = '2', but it is from 1 to 4"),
        ({"b": (0.5,)}, "has conditions that form a cycle: b -> b"),
    ],
)
def test_a_condition_that_can_never_hold_is_refused(when: dict[str, Any], message: str) -> None:
    parameters: dict[str, Parameter] = {
        "a": CHOICE,
        "b": Float(low=0, high=1, when=when),
        "n": Int(low=1, high=4),
    }
    with pytest.raises(ValueError, match=message):
        Space(parameters)


def test_a_cycle_of_conditions_is_shown() -> None:
    cycle: dict[str, Parameter] = {
        name: Categorical(choices=(1, 2), when={other: (1,)})
        for name, other in (("a", "b"), ("b", "c"), ("c", "a"))
    }
    with pytest.raises(ValueError, match=r"form a cycle: \w -> \w -> \w -> \w"):
        Space(cycle)


def test_parameters_keep_their_order_but_for_what_a_condition_names() -> None:
    space = Space(
        {
            "late": Float(low=0, high=1, when={"z": (1,), "y": (1,)}),
            "m": CHOICE,
            "y": Categorical(choices=(1, 2)),
            "z": Categorical(choices=(1, 2), when={"x": (1,)}),
            "x": Categorical(choices=(1, 2)),
        }
    )
    assert list(space) == ["x", "z", "y", "late", "m"]
    plain = {name: CHOICE for name in "qwertz"}
    assert list(Space(plain)) == list("qwertz")


@given(st.data())
def test_each_parameter_comes_after_those_it_depends_on(data: st.DataObject) -> None:
    names = data.draw(st.permutations("abcdefgh"))
    rank = {name: index for index, name in enumerate(data.draw(st.permutations("abcdefgh")))}
    parameters: dict[str, Parameter] = {}
    for name in names:
        earlier = [other for other in names if rank[other] < rank[name]]
        picked = data.draw(st.lists(st.sampled_from(earlier), max_size=3)) if earlier else []
        parameters[name] = Categorical(choices=(1, 2), when={other: (1,) for other in picked})
    space = Space(parameters)
    order = list(space)
    assert sorted(order) == sorted(names)
    for name in order:
        assert all(order.index(other) < order.index(name) for other in space[name].when)
    assert list(Space(dict(space))) == order


def test_a_parameter_exists_when_all_its_conditions_hold() -> None:
    space = Space(
        {
            "a": CHOICE,
            "n": Int(low=1, high=4),
            "b": Float(low=0, high=1, when={"a": ("sgd",), "n": (1, 2)}),
            "c": Float(low=0, high=1, when={"b": (0.5,)}),
        }
    )
    assert space.exists("a", {})
    assert space.exists("b", {"a": "sgd", "n": 2})
    assert not space.exists("b", {"a": "sgd", "n": 3})
    assert not space.exists("b", {"a": "adam", "n": 1})
    assert not space.exists("c", {"a": "adam", "n": 1})  # what it depends on does not exist
    assert space.exists("c", {"b": 0.5})


def test_the_values_of_a_grid_are_counted_as_they_are_listed() -> None:
    space = Space(
        {
            "int": Int(low=3, high=11, step=2),
            "float": Float(low=0.1, high=0.7, step=0.2),
            "choice": Categorical(choices=("a", None)),
        }
    )
    assert space.grid() == {
        "int": [3, 5, 7, 9, 11],
        "float": pytest.approx([0.1, 0.3, 0.5, 0.7]),
        "choice": ["a", None],
    }
    assert space.grid_size() == 5 * 4 * 2


def test_a_grid_too_large_for_memory_is_refused_before_it_is_made() -> None:
    for parameter in (
        Int(low=0, high=10**12),
        Float(low=0, high=1e300, step=1e-300),
        Float(low=0, high=1, step=1e-12),
    ):
        with pytest.raises(ValueError, match=r"a grid of .* points, but sampler grid takes"):
            Space({"x": parameter}).grid()
    many = Space({f"x{n}": Int(low=0, high=9) for n in range(30)})
    assert many.grid_size() == 10**30
    with pytest.raises(ValueError, match="at most 100000"):
        many.check_grid()
