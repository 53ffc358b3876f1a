"""The Pareto front: what no other beats in every metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def pareto_front(scores: Mapping[int, Sequence[float]]) -> list[int]:
    """The keys whose scores (greater is better) no others dominate, in the order of the keys.

    >>> pareto_front({0: (1, 5), 1: (2, 4), 2: (1, 4)})
    [0, 1]
    """
    front: list[int] = []
    # In this order, nothing dominates what comes before it.
    for key in sorted(scores, key=lambda key: tuple(scores[key]), reverse=True):
        mine = scores[key]
        if not any(_dominates(scores[other], mine) for other in front):
            front.append(key)
    return sorted(front)


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)
