"""Whether parameters are a point of a space."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core.param_fitting import fit
from hpo_ops.core.search_space import Categorical, Float, Int, Space

SPACE = Space(
    {
        "lr": Float(low=1e-4, high=1e-1, log=True),
        "width": Int(low=4, high=64, step=4),
        "beta": Float(low=0.5, high=0.95, step=0.05),
        "optimizer": Categorical(choices=("adam", "sgd", None)),
        "momentum": Float(low=0, high=0.99, when={"optimizer": ("sgd",)}),
        "nesterov": Categorical(choices=(True, False), when={"momentum": (0.9,)}),
    }
)
WHOLE: dict[str, Any] = {"lr": 0.01, "width": 8, "beta": 0.6, "optimizer": "adam"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"width": 8.0},
        {"beta": 0.5 + 3 * 0.05},
        {"beta": 0.95},
        {"optimizer": None},
        {"optimizer": "sgd", "momentum": 0},
        {"optimizer": "sgd", "momentum": 0.9, "nesterov": False},
    ],
)
def test_a_point_of_the_space_fits(changes: dict[str, Any]) -> None:
    params = WHOLE | changes
    fitted, problems = fit(SPACE, params)
    assert problems == []
    assert fitted == params
    assert type(fitted["width"]) is int
    assert list(fitted) == [name for name in SPACE if name in params]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"lr": 0.5}, "lr is 0.5, but must be from 0.0001 to 0.1"),
        ({"lr": "0.01"}, "lr is '0.01', but must be from 0.0001 to 0.1"),
        ({"lr": math.nan}, "lr is nan, but must be from 0.0001 to 0.1"),
        ({"lr": True}, "lr is True, but must be from 0.0001 to 0.1"),
        ({"width": 8.5}, "width is 8.5, but must be an integer"),
        ({"width": 9}, "width is 9, but must be 4 plus a multiple of 4"),
        ({"width": math.inf}, "width is inf, but must be from 4 to 64"),
        ({"beta": 0.63}, "beta is 0.63, but must be 0.5 plus a multiple of 0.05"),
        ({"optimizer": "rmsprop"}, "optimizer is 'rmsprop', but must be one of adam, sgd, None"),
        ({"momentum": 0.5}, "momentum is there, but exists only when optimizer is sgd"),
        ({"optimizer": "sgd"}, "momentum is missing"),
        ({"depth": 3}, "depth is no parameter of the space (there are lr, width, beta,"),
        (
            {"optimizer": "sgd", "momentum": 0.9, "nesterov": 1},
            "nesterov is 1, but must be one of True, False",
        ),
    ],
)
def test_what_does_not_fit_says_why(changes: dict[str, Any], problem: str) -> None:
    _, problems = fit(SPACE, WHOLE | changes)
    assert [text[: len(problem)] for text in problems] == [problem]


def test_a_part_may_leave_out_anything_but_not_contradict_itself() -> None:
    assert fit(SPACE, {}, is_complete=False) == ({}, [])
    assert fit(SPACE, {"nesterov": True}, is_complete=False) == ({"nesterov": True}, [])
    _, problems = fit(SPACE, {"optimizer": "adam", "momentum": 0.5}, is_complete=False)
    assert problems == ["momentum is there, but exists only when optimizer is sgd"]


@given(
    st.dictionaries(
        st.sampled_from([*SPACE, "other"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["adam", "sgd"]),
    )
)
def test_what_fits_fits_again(params: dict[str, Any]) -> None:
    fitted, problems = fit(SPACE, params)
    if not problems:
        assert fit(SPACE, fitted) == (fitted, [])
        assert set(fitted) == set(params)
