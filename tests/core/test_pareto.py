"""The Pareto front, against its definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core.pareto import pareto_front

points = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), max_size=20)


@given(points)
def test_the_front_is_what_no_other_point_dominates(found: list[tuple[int, int, int]]) -> None:
    scores = dict(enumerate(found))

    def is_dominated(key: int) -> bool:
        mine = scores[key]
        return any(
            other != mine and all(a >= b for a, b in zip(other, mine, strict=True))
            for other in scores.values()
        )

    assert pareto_front(scores) == [key for key in scores if not is_dominated(key)]


def test_equal_points_are_both_on_the_front() -> None:
    assert pareto_front({7: (1, 2), 3: (1, 2)}) == [3, 7]
