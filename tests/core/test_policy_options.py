"""Policies by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import pytest

from hpo_ops.core.policy_options import create_policy


class Form(StrEnum):
    A = "a"
    B = "b"


@dataclass(frozen=True, kw_only=True)
class Sample:
    count: int
    rate: float = 0.5
    form: Form = Form.A
    on: bool = True
    limit: int | None = None
    table: tuple[float, ...] = ()


class Plain:
    def __init__(self, size: int) -> None:
        self.size = size


KNOWN = {"sample": Sample}


def test_options_become_fields_of_their_types() -> None:
    options = {"count": 2, "rate": 1, "form": "b", "limit": None, "table": [1, 2.5]}
    made = create_policy("policy", KNOWN, "sample", options)
    assert made == Sample(count=2, rate=1.0, form=Form.B, table=(1.0, 2.5))
    assert isinstance(made.rate, float)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "policy.count is missing, but must be given"),
        ({"count": "2"}, "policy.count is '2', but must be an integer"),
        ({"count": True}, "policy.count is True, but must be an integer"),
        ({"count": 1, "form": "c"}, "policy.form is 'c', but must be one of a, b"),
        ({"count": 1, "on": 1}, "policy.on is 1, but must be true or false"),
        ({"count": 1, "limit": "x"}, "policy.limit is 'x', but must be an integer or null"),
        ({"count": 1, "table": [1, "x"]}, "policy.table[1] is 'x', but must be a number"),
        (
            {"count": 1, "rat": 1},
            "policy.rat is not an option; allowed: count, form, limit, on, rate, table",
        ),
    ],
)
def test_an_error_says_what_was_found_and_what_is_allowed(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        create_policy("policy", KNOWN, "sample", options)
    assert str(error.value) == message


def test_a_class_that_the_operator_allows_is_named_by_its_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"{__name__}:Plain"
    monkeypatch.setenv("HPO_ALLOWED_CLASSES", f"other:Thing, {name}")
    assert create_policy("policy", KNOWN, name, {"size": 3}).size == 3
    with pytest.raises(ValueError, match="does not take these options"):
        create_policy("policy", KNOWN, name, {"width": 3})


@pytest.mark.parametrize("name", ["other", "no.such.module:Thing", "math:Thing", "math:pi"])
def test_a_name_that_leads_nowhere_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPO_ALLOWED_CLASSES", name)
    with pytest.raises(ValueError, match=r"policy\.name is ") as error:
        create_policy("policy", KNOWN, name, {})
    assert "has not allowed it" not in str(error.value)


def test_a_class_without_the_methods_of_its_port_is_never_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"{__name__}:Plain"
    monkeypatch.setenv("HPO_ALLOWED_CLASSES", name)
    monkeypatch.setattr(Plain, "__init__", lambda self, **_: pytest.fail("it was called"))
    with pytest.raises(ValueError, match="that class has no method next"):
        create_policy("policy", KNOWN, name, {"size": 3}, methods=("next",))
