from __future__ import annotations

import pytest
from scipy import stats

from hpo_ops.core import Direction
from hpo_ops.core.experiment_statistics import (
    band,
    best_so_far,
    estimate,
    holm,
    paired_test,
    rank,
    repeat_seed,
)

MAX, MIN = Direction.MAXIMIZE, Direction.MINIMIZE


def test_the_papers_experiment_has_its_mean_and_sample_deviation() -> None:
    values = [0.81, 0.79, 0.83, 0.80]
    made = estimate(values)
    assert made.mean == pytest.approx(0.8075)
    assert made.deviation == pytest.approx(0.01708, abs=5e-6)
    low, high = stats.t.interval(0.95, 3, loc=made.mean, scale=stats.sem(values))
    assert (made.low, made.high) == pytest.approx((low, high))


def test_a_single_repeat_has_a_mean_and_nothing_that_it_cannot_know() -> None:
    made = estimate([0.5])
    assert (made.mean, made.deviation, made.low, made.high) == (0.5, None, None, None)


def test_the_first_repeat_has_the_studys_own_seed_and_the_others_have_one_each() -> None:
    seeds = [repeat_seed(7, repeat) for repeat in range(20)]
    assert seeds[0] == 7
    assert len(set(seeds)) == 20
    assert seeds == [repeat_seed(7, repeat) for repeat in range(20)]


def test_the_best_so_far_follows_the_direction() -> None:
    assert best_so_far([None, 3, 5, None, 4], MAX) == (None, 3, 5, 5, 5)
    assert best_so_far([3, 5, 2], MIN) == (3, 3, 2)


def test_the_band_starts_where_all_have_a_value_and_carries_early_ends_on() -> None:
    curves = [(None, 0.5, 0.6, 0.6), (0.3, 0.7), (None, None, None)]
    made = band(curves)
    assert list(made) == [2, 3, 4]  # the third never had a value
    assert made[2].mean == pytest.approx(0.6)
    assert made[4].mean == pytest.approx(0.65)


def test_the_paired_test_is_the_share_of_signs_that_are_as_far() -> None:
    assert paired_test([1.0] * 5) == 2 / 32
    assert paired_test([1.0] * 10) == 2 / 1024
    assert paired_test([1.0, -1.0]) == 1.0
    assert paired_test([0.0, 0.0]) == 1.0
    assert paired_test([]) == 1.0
    assert paired_test([0.3, 0.1, 0.2, -0.1, 0.4]) == paired_test([-0.3, -0.1, -0.2, 0.1, -0.4])


def test_the_paired_test_agrees_with_scipys_exact_and_drawn() -> None:
    for count in (8, 20):
        differences = [0.1 * ((7 * index) % 5 - 1.2) for index in range(count)]
        expected = stats.permutation_test(
            (differences,),
            lambda values: sum(values),
            permutation_type="samples",
            vectorized=False,
            n_resamples=10_000,
            random_state=0,
        ).pvalue
        assert paired_test(differences) == pytest.approx(expected, abs=0.02)


def test_holms_correction_never_falls_and_stays_a_chance() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_studies_are_ranked_by_their_means_and_tested_in_pairs() -> None:
    outcomes = {
        "random": dict(enumerate([0.80, 0.79, 0.82, 0.81, 0.80, 0.78])),
        "tpe": dict(enumerate([0.90, 0.88, 0.92, 0.91, 0.89, 0.87])),
        "grid": {0: 0.91, 1: 0.87, 7: 0.5},
        "none": {},
    }
    first, second, third = rank(outcomes, MAX)
    assert [first.name, second.name, third.name] == ["tpe", "random", "grid"]
    assert (first.behind, first.chance) == (None, None)
    assert (second.pairs, third.pairs) == (6, 2)
    assert second.behind == pytest.approx(0.095)
    assert second.chance == pytest.approx(2 * 2 / 64)  # two tests, each of six pairs
    assert third.chance == 1.0
    assert [item.name for item in rank(outcomes, MIN)] == ["grid", "random", "tpe"]
