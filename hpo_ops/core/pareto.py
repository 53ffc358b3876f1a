"""The Pareto front: the trials that no other trial dominates in several metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def pareto_front(scores: Mapping[int, Sequence[float]]) -> list[int]:
    """Returns the keys (such as trial numbers) of the Pareto front, sorted.

    Each key maps to one score per metric; larger scores are better. A key is omitted if another
    key is at least as good in every metric and better in one.

    >>> pareto_front({0: (1, 5), 1: (2, 4), 2: (1, 4)})
    [0, 1]
    """
    front: list[int] = []
    # In this order no scores dominate any before them.
    for key in sorted(scores, key=lambda key: tuple(scores[key]), reverse=True):
        mine = scores[key]
        if not any(_dominates(scores[other], mine) for other in front):
            front.append(key)
    return sorted(front)


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)
