"""The speed of a trial by the number of units that it runs on."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise


def speedup(width: Fraction | int, table: tuple[float, ...] = ()) -> float:
    """The speed on a number of units, relative to one unit.

    >>> speedup(3, (1.0, 1.77, 2.93))
    2.35

    Args:
        width: Units; a share of one unit trains at that share of its speed.
        table: Speed on 1, 2, 4, 8, ... units. Between two entries the speed is interpolated;
            beyond the last it stays. If empty, the speed is the width itself (ideal scaling).
    """
    if not table or width <= 1:
        return float(width)
    at = 1
    for slower, faster in pairwise(table):
        if width <= 2 * at:
            return slower + (faster - slower) * float((width - at) / Fraction(at))
        at *= 2
    return table[-1]
