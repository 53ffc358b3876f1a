"""Scores in order."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from heapq import heappush, heappushpop


class Ranking:
    """Scores in order, each with a rank in logarithmic time."""

    __slots__ = ("_scores",)

    def __init__(self) -> None:
        self._scores: list[float] = []

    def __len__(self) -> int:
        return len(self._scores)

    def add(self, score: float) -> None:
        insort(self._scores, score)

    def better_than(self, score: float) -> int:
        """How many scores are strictly greater."""
        return len(self._scores) - bisect_right(self._scores, score)

    def is_among_best(self, score: float, count: int) -> bool:
        """Whether fewer than so many scores, at most all of them, are strictly greater."""
        return count > 0 and self._scores[-count] <= score

    def worse_than(self, score: float) -> int:
        """How many scores are strictly less."""
        return bisect_left(self._scores, score)

    def remove(self, score: float) -> None:
        """Takes one such score out.

        Raises:
            ValueError: It is not there.
        """
        index = bisect_left(self._scores, score)
        if index == len(self._scores) or self._scores[index] != score:
            raise ValueError(f"score {score} is not in the ranking")
        del self._scores[index]

    def quantile(self, q: float, *, without: float | None = None) -> float:
        """The q-quantile (0 to 1) with linear interpolation between neighbours.

        Args:
            q: From 0, the least score, to 1, the greatest.
            without: A score in the ranking that is left out once.
        """
        scores = self._scores
        gap = last = len(scores) - 1
        if without is not None:
            gap, last = bisect_left(scores, without) - 1, last - 1
        if last < 0:
            raise ValueError("a quantile of no scores does not exist")
        position = q * last
        low = int(position)
        below = scores[low if low <= gap else low + 1]
        if position == low:
            return below
        above = scores[low + 1 if low < gap else low + 2]
        if below == above or below == -math.inf:
            return below
        return below + (position - low) * (above - below)

    def nth(self, index: int) -> float:
        """The score at a place in the order, from 0 for the least."""
        return self._scores[index]

    def top(self, count: int) -> list[float]:
        """The greatest scores, best first."""
        return self._scores[-count:][::-1] if count > 0 else []


class RunningMedian:
    """The median of numbers that keep coming: the lower and the upper half, each as a heap.

    A number takes its place when somebody asks for the median.
    """

    def __init__(self) -> None:
        self._new: list[float] = []
        self.add = self._new.append
        self._lower: list[float] = []
        """Negated, so that the greatest is on top; as many as in the upper half, or one more."""
        self._upper: list[float] = []

    @property
    def median(self) -> float | None:
        """The middle one, or half way between the two in the middle; None without numbers."""
        for number in self._new:
            if len(self._lower) == len(self._upper):
                heappush(self._lower, -heappushpop(self._upper, number))
            else:
                heappush(self._upper, -heappushpop(self._lower, -number))
        self._new.clear()
        if not self._lower:
            return None
        below = -self._lower[0]
        if len(self._lower) > len(self._upper):
            return below
        return below + 0.5 * (self._upper[0] - below)
