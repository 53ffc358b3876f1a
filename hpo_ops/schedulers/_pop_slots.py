"""POP's rule for dividing slots between promising and opportunistic trials."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Division:
    """A division of the slots between promising and opportunistic trials.

    Attributes:
        threshold: Lowest probability of a promising trial; irrelevant if ``slots`` is 0.
        effective: Number of slots that promising trials both want and deserve; see `divide_slots`.
        slots: Number of slots for promising trials: the integer part of ``effective``.
    """

    threshold: float
    effective: float
    slots: int

    def is_promising(self, probability: float) -> bool:
        """Checks whether a trial with this probability to reach the target is promising."""
        return self.slots > 0 and probability >= self.threshold


def divide_slots(probabilities: Iterable[float], slots: int, slots_per_trial: int = 1) -> Division:
    """Finds the threshold p that maximises min(N(p) * k, S * p), the effective slots.

    N(p) is the number of trials with probability p or more: N(p) * k slots are wanted, S * p slots
    are deserved. Of two equally good thresholds the higher is chosen. Only the probabilities that
    occur are tried, since N is constant between them. The search ends at the first p at which the
    wanted slots reach the deserved slots, since lower thresholds deserve fewer slots.

    >>> divide_slots([0.9, 0.8, 0.8, 0.5, 0.3, 0.1], 4)
    Division(threshold=0.8, effective=3, slots=3)

    Args:
        probabilities: Each active trial's probability to reach the target (p), highest first.
        slots: Total number of slots (S).
        slots_per_trial: Number of slots that one promising trial uses (k).
    """
    best = Division(math.inf, 0.0, 0)
    for count, probability in enumerate(probabilities, start=1):
        wanted, deserved = count * slots_per_trial, slots * probability
        effective = min(wanted, deserved)
        if effective > best.effective:
            best = Division(probability, effective, math.floor(effective))
        if wanted >= deserved:
            break
    return best
