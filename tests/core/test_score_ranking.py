"""Rankings and running quantiles, against the plain way to compute the same."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core import Ranking
from hpo_ops.core.score_ranking import RunningQuantile

scores = st.lists(st.floats(-5, 5), min_size=1, max_size=40)


@given(scores, st.floats(-5, 5))
def test_a_rank_is_what_counting_gives(values: list[float], score: float) -> None:
    ranking = Ranking()
    for value in values:
        ranking.add(value)
    assert ranking.better_than(score) == sum(value > score for value in values)
    for count in range(len(values) + 1):
        assert ranking.is_among_best(score, count) is (ranking.better_than(score) < count)


@given(scores, st.floats(0, 1))
def test_a_quantile_lies_between_its_neighbours(values: list[float], q: float) -> None:
    ranking = Ranking()
    for value in values:
        ranking.add(value)
    ordered = sorted(values)
    low = math.floor(q * (len(values) - 1))
    high = ordered[min(low + 1, len(values) - 1)]
    assert ordered[low] - 1e-12 <= ranking.quantile(q) <= high + 1e-12


@given(st.lists(st.floats(-1e6, 1e6) | st.just(-math.inf), min_size=1), st.floats(0, 1))
def test_a_running_quantile_is_that_of_a_ranking(values: list[float], q: float) -> None:
    running, ranking = RunningQuantile(q), Ranking()
    assert math.isnan(running.value)
    for count, value in enumerate(values, start=1):
        running.add(value)
        ranking.add(value)
        assert running.count == count
        assert running.value == ranking.quantile(q)
        assert running.below == sorted(values[:count])[int(q * (count - 1))]
    for value in values if len(values) > 1 else ():
        ranking.remove(value)
        assert running.without(value) == ranking.quantile(q)
        ranking.add(value)


def test_a_quantile_interpolates() -> None:
    ranking = Ranking()
    for value in (0.4, 0.5, 0.6, 0.7):
        ranking.add(value)
    assert ranking.quantile(0.75) == pytest.approx(0.625)
    assert ranking.quantile(0) == 0.4
    assert ranking.quantile(1) == 0.7


def test_a_quantile_beside_minus_infinity_is_a_number() -> None:
    ranking = Ranking()
    for value in (-math.inf, 0.5, 0.6):
        ranking.add(value)
    assert ranking.quantile(0.5) == 0.5
    assert ranking.quantile(0.25) == -math.inf


def test_a_score_is_removed_once() -> None:
    ranking = Ranking()
    for value in (0.5, 0.5, 0.7):
        ranking.add(value)
    ranking.remove(0.5)
    assert len(ranking) == 2
    assert ranking.quantile(0) == 0.5


def test_only_a_score_of_the_ranking_can_be_removed() -> None:
    ranking = Ranking()
    ranking.add(0.5)
    for absent in (0.4, 0.6):
        with pytest.raises(ValueError, match=f"score {absent} is not in the ranking"):
            ranking.remove(absent)


def test_an_empty_ranking_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="a quantile of no scores"):
        Ranking().quantile(0.5)
