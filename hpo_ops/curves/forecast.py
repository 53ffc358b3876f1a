"""Forecasts of learning curves as quantiles of the score at future steps.

A forecast is small enough to be sent in a message to the gateway.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVELS: tuple[float, ...] = (
    0.001, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4,
    0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98,
    0.99, 0.995, 0.999,
)  # fmt: skip
"""Probabilities of a forecast's quantiles; dense near the thresholds that schedulers use."""

MAX_STEPS = 48
"""Largest number of future steps in a forecast; the forecast is interpolated between them."""


def future_steps(after: int, last: int) -> tuple[int, ...]:
    """Returns the steps of a forecast: all steps after ``after`` and up to ``last``.

    If these are more than ``MAX_STEPS`` steps, returns ``MAX_STEPS`` of them, evenly spaced and
    including ``last``.
    """
    count = last - after
    if count <= MAX_STEPS:
        return tuple(range(after + 1, last + 1))
    return tuple(after + math.ceil(count * (i + 1) / MAX_STEPS) for i in range(MAX_STEPS))


@dataclass(frozen=True, eq=False)
class QuantileForecast:
    """Quantiles of a trial's score at future steps.

    Attributes:
        steps: Future steps in ascending order.
        quantiles: For each step, the quantiles of the score for the probabilities in ``LEVELS``.
    """

    steps: tuple[int, ...]
    quantiles: tuple[tuple[float, ...], ...]

    @classmethod
    def from_samples(
        cls, steps: Sequence[int], samples: NDArray[np.float64]
    ) -> QuantileForecast | None:
        """Computes the forecast from sampled curves.

        Args:
            steps: Future steps in ascending order.
            samples: Scores, one row for each sampled curve and one column for each step.

        Returns:
            The forecast, or None if there are no samples or a score is not finite.
        """
        if not len(samples) or not np.isfinite(samples).all():
            return None
        table = np.quantile(samples, LEVELS, axis=0).T
        return cls(tuple(steps), tuple(tuple(map(float, row)) for row in table))

    def probability(self, score: float, *, by_step: int) -> float:
        """Returns the probability that the score at step ``by_step`` is at least ``score``.

        The result is from 0.0005 to 0.9995, since the quantiles are known only for probabilities
        from 0.001 to 0.999 (``LEVELS``).
        """
        right = bisect_left(self.steps, by_step)
        if right == len(self.steps):
            return self._above(score, right - 1)
        if right == 0 or self.steps[right] == by_step:
            return self._above(score, right)
        left = right - 1
        share = (by_step - self.steps[left]) / (self.steps[right] - self.steps[left])
        low, high = self._above(score, left), self._above(score, right)
        return low + share * (high - low)

    def interval(self, step: int, coverage: float = 0.9) -> tuple[float, float]:
        """Returns the central interval that contains the score with probability ``coverage``.

        Args:
            step: The step of the score; must be in ``steps``.
            coverage: The probability, from 0 to 1.
        """
        row = self.quantiles[self.steps.index(step)]
        low, high = (1 - coverage) / 2, (1 + coverage) / 2
        return float(np.interp(low, LEVELS, row)), float(np.interp(high, LEVELS, row))

    def median(self, step: int) -> float:
        """Returns the median of the score at a step, which must be in ``steps``."""
        return self.quantiles[self.steps.index(step)][LEVELS.index(0.5)]

    def to_dict(self) -> dict[str, object]:
        """Converts the forecast to a JSON object with its steps and quantiles."""
        return {"steps": list(self.steps), "quantiles": [list(row) for row in self.quantiles]}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> QuantileForecast:
        """Creates the forecast from a JSON object that `to_dict` returned.

        Raises:
            ValueError: ``steps`` and ``quantiles`` are not lists of one length, or a step does not
                have one quantile for each probability in ``LEVELS``.
        """
        steps, rows = data.get("steps"), data.get("quantiles")
        if not isinstance(steps, list) or not isinstance(rows, list) or len(steps) != len(rows):
            raise ValueError("forecast: steps and quantiles must be lists of one length")
        if any(len(row) != len(LEVELS) for row in rows):
            raise ValueError(f"forecast: each row of quantiles must have {len(LEVELS)} numbers")
        table = tuple(tuple(float(value) for value in row) for row in rows)
        return cls(tuple(int(step) for step in steps), table)

    def _above(self, score: float, index: int) -> float:
        row = self.quantiles[index]
        right = bisect_left(row, score)
        if right == 0:
            return 1 - LEVELS[0] / 2 if score < row[0] else 1 - LEVELS[0]
        if right == len(row):
            return (1 - LEVELS[-1]) / 2
        low, high = row[right - 1], row[right]
        share = (score - low) / (high - low) if high > low else 1.0
        return 1 - (LEVELS[right - 1] + share * (LEVELS[right] - LEVELS[right - 1]))
