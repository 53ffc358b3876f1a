"""How much faster a trial trains on more units."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise


def speedup(width: Fraction | int, table: tuple[float, ...] = ()) -> float:
    """The speed on so many units, where one is 1.

    >>> speedup(3, (1.0, 1.77, 2.93))
    2.35

    Args:
        width: Units; a share of one trains at that share of its speed.
        table: Speed on 1, 2, 4, 8, ... units; between two it is interpolated, beyond the last it
            stays. Ideal (the width itself) where there is none.
    """
    if not table or width <= 1:
        return float(width)
    at = 1
    for slower, faster in pairwise(table):
        if width <= 2 * at:
            return slower + (faster - slower) * float((width - at) / Fraction(at))
        at *= 2
    return table[-1]
