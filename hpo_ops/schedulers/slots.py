"""POP's division of places between promising and opportunistic trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hpo_ops.core import Forecast

GRID = 8
"""Steps at which a chance is looked at on the way to the last one."""


@dataclass(frozen=True, slots=True)
class Division:
    """How the places are divided.

    Attributes:
        threshold: Chance from which a trial is promising; above 1 where none is.
        effective: Places that promising trials both want and deserve.
        slots: Whole places for promising trials.
    """

    threshold: float
    effective: float
    slots: int

    def is_promising(self, chance: float) -> bool:
        """Whether a trial with this chance belongs to the promising pool."""
        return self.slots > 0 and chance >= self.threshold


def divide_slots(chances: Sequence[float], places: int, slots_per_trial: int = 1) -> Division:
    """Divides places: N(p) * k are wanted, S * p deserved, and the least of both is effective.

    The threshold is the chance at which most is effective, the greater one of two. It is enough
    to look at the chances that occur, since N is constant between them.

    >>> divide_slots([0.9, 0.8, 0.8, 0.5, 0.3, 0.1], 4)
    Division(threshold=0.8, effective=3, slots=3)

    Args:
        chances: The chance of each active trial to reach the target (p).
        places: All places (S).
        slots_per_trial: Places that one promising trial uses (k).
    """
    best = Division(math.inf, 0.0, 0)
    for count, chance in enumerate(sorted(chances, reverse=True), start=1):
        effective = min(count * slots_per_trial, places * chance)
        if effective > best.effective:
            best = Division(chance, effective, math.floor(effective))
    return best


def chance_to_reach(forecast: Forecast, score: float, after: int, last: int) -> float:
    """The greatest predicted chance of a score on the way to the last step; 0 with no step left.

    The confidence p of POP is the sum of the growth of P(m), that is the running maximum of P.
    It is looked at on a few steps, the last included.
    """
    if last <= after:
        return 0.0
    steps = {after + math.ceil((last - after) * (i + 1) / GRID) for i in range(GRID)}
    return max(forecast.probability(score, by_step=step) for step in steps)
