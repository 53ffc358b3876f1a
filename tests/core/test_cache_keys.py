from __future__ import annotations

from hpo_ops.core.cache_keys import cache_key, canonical_params, seed_of_params
from hpo_ops.core.search_space import Categorical, Float, Int, Space

SPACE = Space(
    {
        "lr": Float(low=0.0, high=1.0),
        "depth": Int(low=1, high=4),
        "batch": Categorical(choices=(1, 2.5, "all", None)),
    }
)


def test_the_order_of_parameters_does_not_matter() -> None:
    one = canonical_params(SPACE, {"lr": 0.1, "depth": 2, "batch": "all"})
    assert one == canonical_params(SPACE, {"batch": "all", "depth": 2, "lr": 0.1})


def test_one_is_what_the_type_of_its_parameter_says() -> None:
    assert canonical_params(SPACE, {"lr": 1}) == canonical_params(SPACE, {"lr": 1.0})
    assert canonical_params(SPACE, {"lr": -0.0}) == canonical_params(SPACE, {"lr": 0.0})
    assert canonical_params(SPACE, {"depth": 3.0}) == canonical_params(SPACE, {"depth": 3})
    assert canonical_params(SPACE, {"batch": 1.0}) == canonical_params(SPACE, {"batch": 1})
    assert canonical_params(SPACE, {"lr": 1}) != canonical_params(SPACE, {"depth": 1})


def test_numbers_that_differ_in_the_last_bit_are_different() -> None:
    assert canonical_params(SPACE, {"lr": 0.1 + 0.2}) != canonical_params(SPACE, {"lr": 0.3})


def test_the_seed_comes_from_the_study_and_the_parameters() -> None:
    params = canonical_params(SPACE, {"lr": 0.5})
    assert seed_of_params(7, params) == seed_of_params(7, params)
    assert seed_of_params(7, params) != seed_of_params(8, params)
    assert seed_of_params(7, params) != seed_of_params(7, canonical_params(SPACE, {"lr": 0.6}))


def test_every_part_of_a_key_counts() -> None:
    whole = {"made_of": {"code": "a", "data": "1"}, "params": "{}", "seed": 1, "fold": ""}
    changes = [
        {},
        {"made_of": {"code": "b", "data": "1"}},
        {"made_of": {"code": "a", "data": "2"}},
        {"params": '{"lr":1.0}'},
        {"seed": 2},
        {"fold": "1/5"},
    ]
    keys = {cache_key(**{**whole, **change}) for change in changes}  # type: ignore[arg-type]
    assert len(keys) == len(changes)
    assert cache_key(**whole) == cache_key(**dict(reversed(whole.items())))  # type: ignore[arg-type]
