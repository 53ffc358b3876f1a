"""POP's rule for dividing slots between promising and opportunistic trials."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Division:
    """A division of the slots between promising and opportunistic trials.

    Attributes:
        threshold: Lowest probability of a promising trial; above 1 where no trial is promising.
        effective: Slots that promising trials both want and deserve, as a real number.
        slots: Slots for promising trials: the integer part of ``effective``.
    """

    threshold: float
    effective: float
    slots: int

    def is_promising(self, probability: float) -> bool:
        """Whether a trial with this probability to reach the target is promising."""
        return self.slots > 0 and probability >= self.threshold


def divide_slots(probabilities: Iterable[float], slots: int, slots_per_trial: int = 1) -> Division:
    """Finds the threshold p that maximises min(N(p) * k, S * p), the effective slots.

    N(p) is the number of trials with probability p or more: N(p) * k slots are wanted, S * p are
    deserved. Of two thresholds that are as good the higher one counts. Only the probabilities that
    occur are tried, since N is constant between them, and only down to the first at which as many
    slots are wanted as deserved, since below it fewer are deserved.

    >>> divide_slots([0.9, 0.8, 0.8, 0.5, 0.3, 0.1], 4)
    Division(threshold=0.8, effective=3, slots=3)

    Args:
        probabilities: Each active trial's probability to reach the target (p), highest first.
        slots: Number of all slots (S).
        slots_per_trial: Slots that one promising trial uses (k).
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
