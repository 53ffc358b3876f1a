"""The training speed of a trial as a function of its width (number of units, such as GPUs)."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise


def speedup(width: Fraction | int, table: tuple[float, ...] = ()) -> float:
    """Returns the training speed at a width, relative to the speed on one unit.

    >>> speedup(3, (1.0, 1.77, 2.93))
    2.35

    Args:
        width: Number of units, or a fraction below 1 of a shared unit, which trains at that
            fraction of the unit's speed.
        table: Speed on 1, 2, 4, 8, ... units. Between two entries the speed is interpolated;
            beyond the last entry it is constant. If the table is empty, the speed equals the
            width (ideal scaling).
    """
    if not table or width <= 1:
        return float(width)
    at = 1
    for slower, faster in pairwise(table):
        if width <= 2 * at:
            return slower + (faster - slower) * float((width - at) / Fraction(at))
        at *= 2
    return table[-1]
