"""Even, uniform and top-trial allocation."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import pytest

from hpo_ops.allocators import Even, TopTrial, Uniform
from hpo_ops.allocators._ranked_shares import uniform_widths
from hpo_ops.core import Capacity
from tests.allocators.scored_studies import IMAGENET, scored
from tests.contracts.allocator import AllocatorContract


class TestEven(AllocatorContract):
    name = "even"


class TestTopTrial(AllocatorContract):
    name = "top_trial"


class TestUniform(AllocatorContract):
    name = "uniform"
    options: ClassVar = {"speedups": [1.0, 1.77], "cool_down": 0}
    bad_options = (("min_gain", 0.5), ("cool_down", -1))


@pytest.mark.parametrize(
    ("trials", "expected"),
    [(8, [1] * 8), (5, [2, 2, 2, 1, 1]), (3, [3, 3, 2]), (2, [4, 4]), (1, [8])],
)
def test_the_uniform_splits(trials: int, expected: list[int]) -> None:  # HS-3
    assert uniform_widths(trials, 8, 8) == expected


def test_the_best_scores_get_the_extra_units_first() -> None:  # HS-3
    study, group = scored(0.1, 0.9, 0.5, 0.7, 0.3)
    placed = Uniform().allocate(study, group, Capacity(8, 1, 8), 0.0).placed
    assert [placed[n].width for n in range(5)] == [1, 2, 2, 2, 1]


def test_more_trials_than_units_wait_by_score() -> None:
    study, group = scored(0.1, 0.9, 0.5)
    allocation = Uniform().allocate(study, group, Capacity(2, 1, 8), 0.0)
    assert sorted(allocation.placed) == [1, 2]
    assert allocation.queued == (0,)


def test_a_running_trial_is_widened_only_where_it_pays() -> None:
    study, group = scored(0.9, startups=[40.0])
    uniform = Uniform(speedups=IMAGENET)
    wide = uniform.allocate(study, group, Capacity(8, 1, 8), 0.0)
    assert wide.placed[0].width == 8
    late = uniform.allocate(study, group, Capacity(8, 1, 8), 955.0)
    assert late.placed[0].width == 1


def test_the_best_trial_gets_all_that_is_spare() -> None:
    study, group = scored(0.1, 0.9, 0.5)
    placed = TopTrial().allocate(study, group, Capacity(8, 1, 8), 0.0).placed
    assert [placed[n].width for n in range(3)] == [1, 6, 1]


@pytest.mark.parametrize(
    ("trials", "width"), [(2, Fraction(4)), (3, Fraction(2)), (9, Fraction(1, 2))]
)
def test_even_gives_everyone_the_same(trials: int, width: Fraction) -> None:
    study, group = scored(*[0.5] * trials)
    placed = Even().allocate(study, group, Capacity(8, 4, 8), 0.0).placed
    assert {placement.width for placement in placed.values()} == {width}
    assert len(placed) == trials
