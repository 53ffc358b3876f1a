"""Expected remaining time to a target (POP, equations 1 to 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from hpo_ops.core import Forecast


@dataclass(frozen=True, slots=True)
class Remaining:
    """How long a trial needs to reach a target.

    Attributes:
        steps: Expected number of steps, counting only the cases in which it is reached (x).
        probability: Probability that it is reached in the time that is left (p).
        seconds: The paper's expected remaining time, x * time of a step. It shrinks when success
            is unlikely, so it is no measure of promise by itself.
    """

    steps: float
    probability: float
    seconds: float

    @property
    def mean_steps(self) -> float | None:
        """Expected number of steps, given that the target is reached: x / p."""
        return self.steps / self.probability if self.probability > 0 else None


def expected_remaining(
    probabilities: Sequence[float], *, step_seconds: float, seconds_left: float
) -> Remaining:
    """The remaining time behind P(1), P(2), ...: the chance to be at the target at each step.

    The running maximum of P is used, so that no step has a negative share.

    >>> chances = [0, 0.1, 0.3, 0.6, 0.8]
    >>> round(expected_remaining(chances, step_seconds=60, seconds_left=300).seconds)
    180
    """
    most = len(probabilities)
    if math.isfinite(seconds_left):
        most = min(most, max(math.floor(seconds_left / step_seconds), 0))
    cumulated = [0.0, *accumulate(probabilities[:most], max)]
    shares = [after - before for before, after in pairwise(cumulated)]
    steps = math.fsum(step * share for step, share in enumerate(shares, start=1))
    return Remaining(steps, cumulated[-1], steps * step_seconds)


def remaining_of(
    forecast: Forecast,
    score: float,
    *,
    after_step: int,
    last_step: int,
    step_seconds: float,
    seconds_left: float,
) -> Remaining:
    """The remaining time to a score by a forecast."""
    chances = [
        forecast.probability(score, by_step=step) for step in range(after_step + 1, last_step + 1)
    ]
    return expected_remaining(chances, step_seconds=step_seconds, seconds_left=seconds_left)
