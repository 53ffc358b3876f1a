"""POP's division of places between promising and opportunistic trials."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


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


def divide_slots(chances: Iterable[float], places: int, slots_per_trial: int = 1) -> Division:
    """Divides places: N(p) * k are wanted, S * p deserved, and the least of both is effective.

    The threshold is the chance at which most is effective, the greater one of two. It is enough
    to look at the chances that occur, since N is constant between them, and to go down until as
    much is wanted as deserved, since from there on only less is deserved.

    >>> divide_slots([0.9, 0.8, 0.8, 0.5, 0.3, 0.1], 4)
    Division(threshold=0.8, effective=3, slots=3)

    Args:
        chances: The chance of each active trial to reach the target (p), greatest first.
        places: All places (S).
        slots_per_trial: Places that one promising trial uses (k).
    """
    best = Division(math.inf, 0.0, 0)
    for count, chance in enumerate(chances, start=1):
        wanted, deserved = count * slots_per_trial, places * chance
        effective = min(wanted, deserved)
        if effective > best.effective:
            best = Division(chance, effective, math.floor(effective))
        if wanted >= deserved:
            break
    return best
