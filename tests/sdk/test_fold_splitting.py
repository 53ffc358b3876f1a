from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.sdk._fold_splitting import split_fold


@given(st.integers(2, 12), st.integers(0, 60), st.integers(0, 5))
def test_every_sample_is_held_out_in_exactly_one_fold(folds: int, more: int, seed: int) -> None:
    samples = folds + more
    parts = [split_fold(samples, fold=fold, folds=folds, seed=seed) for fold in range(folds)]
    assert sorted(index for _, held_out in parts for index in held_out) == list(range(samples))
    sizes = [len(held_out) for _, held_out in parts]
    assert max(sizes) - min(sizes) <= 1
    for train, held_out in parts:
        assert sorted([*train, *held_out]) == list(range(samples))


def test_a_seed_gives_the_same_split_and_another_one_another() -> None:
    one = split_fold(100, fold=2, folds=5, seed=0)
    assert split_fold(100, fold=2, folds=5, seed=0) == one
    assert split_fold(100, fold=2, folds=5, seed=1) != one


def test_all_data_is_trained_on_in_the_end() -> None:
    everything = list(range(7))
    assert split_fold(7, fold=None, folds=3, seed=0) == (everything, everything)


def test_without_folds_a_fifth_is_held_out() -> None:
    train, held_out = split_fold(100, fold=None, folds=None, seed=0)
    assert (len(train), len(held_out)) == (80, 20)


def test_fewer_samples_than_folds_are_refused() -> None:
    with pytest.raises(ValueError, match="samples is 2, but must be 3 or more for 3 folds"):
        split_fold(2, fold=0, folds=3, seed=0)
