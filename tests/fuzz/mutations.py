"""Strategies that damage valid data, text and bytes, so that inputs get past the first check."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

ODD_TEXT = (
    "",
    " ",
    "\x00",
    "\ud800",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "a" * 5000,
    "${HOME}",
    "{{ dag_run.conf }}",
    "%s%n",
    "1e999",
    "9" * 5000,
    "\u202e\u0000",
    "\x1b[31m",
    "file:///etc",
    "s3://other/bucket",
    "postgresql://localhost/hpo",
    "no_such_module:Thing",
    "x <= 1",
    "((((x))))",
)
ODD_NUMBERS = (
    0,
    -1,
    2**31,
    2**63,
    -(2**63) - 1,
    10**12,
    10**400,
    0.1,
    1e308,
    float("inf"),
    float("-inf"),
    float("nan"),
)
_FEW = st.sampled_from((1, 1, 1, 2, 3))
"""Changes of one input; most have one, and get furthest."""


@cache
def values(names: tuple[str, ...] = ()) -> st.SearchStrategy[Any]:
    """Plain data: odd text and numbers, given names, and lists and objects of these."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from(ODD_NUMBERS),
        st.integers(),
        st.floats(),
        st.sampled_from(ODD_TEXT),
        st.text(max_size=20),
        *([st.sampled_from(names)] if names else []),
    )
    keys = st.one_of(st.sampled_from([*names, *ODD_TEXT[:6]]), st.text(max_size=5))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)
        ),
        max_leaves=8,
    )


@st.composite
def near(draw: st.DrawFn, bases: Sequence[Any], *, names: Sequence[str] = ()) -> Any:
    """One of some valid data, with one to a few of its parts replaced, removed or added."""
    parts = values(tuple(names))
    data = copy.deepcopy(draw(st.sampled_from(bases)))
    for _ in range(draw(_FEW)):
        places = list(_places(data))
        if not places:
            return draw(parts)
        holder, key = draw(st.sampled_from(places))
        change = draw(st.integers(0, 3))
        if change == 0:
            del holder[key]
        elif change == 1 and isinstance(holder, dict):
            holder[draw(st.sampled_from([*names, "x"]))] = draw(parts)
        else:
            holder[key] = draw(parts)
    return data


def _places(data: Any) -> Any:
    if isinstance(data, dict | list):
        items = data.items() if isinstance(data, dict) else enumerate(data)
        for key, value in list(items):
            yield data, key
            yield from _places(value)


@st.composite
def damaged(draw: st.DrawFn, bases: Sequence[bytes], *, tokens: Sequence[bytes]) -> bytes:
    """One of some valid texts, with a few slices cut out, repeated or replaced."""
    data = draw(st.sampled_from(bases))
    for _ in range(draw(_FEW)):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 64)))
        middle = draw(
            st.one_of(
                st.just(b""),
                st.sampled_from(tokens),
                st.binary(max_size=8),
                st.just(data[start:end] * 2),
            )
        )
        data = data[:start] + middle + data[end:]
    return data
