"""Rankings and running quantiles of scores."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from heapq import heappush, heappushpop


class Ranking:
    """A sorted list of scores that returns ranks in logarithmic time; larger is better."""

    __slots__ = ("_scores",)

    def __init__(self) -> None:
        self._scores: list[float] = []

    def __len__(self) -> int:
        return len(self._scores)

    def add(self, score: float) -> None:
        insort(self._scores, score)

    def better_than(self, score: float) -> int:
        """Returns the number of scores in the ranking that are strictly greater than a score."""
        return len(self._scores) - bisect_right(self._scores, score)

    def is_among_best(self, score: float, count: int) -> bool:
        """Checks that fewer than ``count`` scores in the ranking are greater than a score.

        The ranking must have ``count`` scores or more.
        """
        return count > 0 and self._scores[-count] <= score

    def remove(self, score: float) -> None:
        """Removes one occurrence of a score.

        Raises:
            ValueError: The score is not in the ranking.
        """
        index = bisect_left(self._scores, score)
        if index == len(self._scores) or self._scores[index] != score:
            raise ValueError(f"score {score} is not in the ranking")
        del self._scores[index]

    def quantile(self, q: float) -> float:
        """Returns the q-quantile of the scores by linear interpolation.

        Args:
            q: From 0 (the lowest score) to 1 (the highest).

        Raises:
            ValueError: The ranking is empty.
        """
        scores = self._scores
        if not scores:
            raise ValueError("a quantile of no scores does not exist")
        position = q * (len(scores) - 1)
        low = int(position)
        if position == low:
            return scores[low]
        return _between(scores[low], scores[low + 1], position)


class RunningQuantile:
    """A quantile of a growing set of numbers, which is stored as two heaps around the quantile.

    Adding a number is faster than with a `Ranking`, but only this one quantile can be queried.

    >>> middle = RunningQuantile(0.5)
    >>> for number in (3.0, 1.0, 2.0, 9.0):
    ...     middle.add(number)
    >>> middle.value, middle.below, middle.without(9.0)
    (2.5, 2.0, 2.0)
    """

    __slots__ = ("_lower", "_q", "_upper", "below", "count", "value")

    def __init__(self, q: float) -> None:
        self._q = q
        self._lower: list[float] = []
        """Numbers up to the quantile, negated, so that the greatest is on top of the heap."""
        self._upper: list[float] = []
        self.count = 0
        self.value = math.nan
        """The quantile, interpolated linearly between its neighbours; NaN if the set is empty."""
        self.below = math.nan
        """The greatest number of the set that is not above the quantile; NaN if it is empty."""

    def add(self, number: float) -> None:
        lower, upper, position = self._lower, self._upper, self._q * self.count
        self.count += 1
        low = int(position)
        if low < len(lower):
            heappush(upper, -heappushpop(lower, -number))
        else:
            heappush(lower, -heappushpop(upper, number))
        self.below = below = -lower[0]
        if (
            position > low and below > -math.inf
        ):  # `_between` inlined: simulators add millions of numbers
            self.value = below + (position - low) * (upper[0] - below)
        else:
            self.value = below

    def without(self, number: float) -> float:
        """Returns the quantile of the set without one occurrence of a number.

        The number must be in the set, and the set must have two numbers or more.
        """
        lower, upper = self._lower, self._upper
        position = self._q * (self.count - 2)
        if int(position) == len(lower) - 1:
            first, second, third = -lower[0], *_least_two(upper)
        else:
            nearest, second_nearest = _least_two(lower)
            first, second, third = -second_nearest, -nearest, upper[0] if upper else math.inf
        return _between(
            first if first < number else second,
            second if second < number else third,
            position,
        )


def _least_two(heap: list[float]) -> tuple[float, float]:
    """Returns the two least numbers of a heap, with infinity for each missing number."""
    return heap[0] if heap else math.inf, min(heap[1:3], default=math.inf)


def _between(below: float, above: float, position: float) -> float:
    """Interpolates linearly between two numbers.

    The fractional part of the position is the weight of the upper number.
    """
    part = position - int(position)
    if not part or below == above or below == -math.inf:
        return below
    return below + part * (above - below)
