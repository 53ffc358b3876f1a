"""Placement: which units a trial runs on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fractions import Fraction

from hpo_ops.core import Capacity, Placement, Trial


class Board:
    """The units of a pool while trials are placed on them.

    Whole widths take whole units; a share lies inside one unit, with at most ``max_share`` others.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._free = [Fraction(1)] * capacity.units
        self._sharing = [0] * capacity.units
        self._max_share = capacity.max_share
        self.placed: dict[int, Placement] = {}
        self.queued: list[int] = []

    def empty_units(self, except_for: Collection[int] = ()) -> int:
        """Units that nobody is on, without those excepted."""
        return sum(free == 1 and unit not in except_for for unit, free in enumerate(self._free))

    def place(self, trial: Trial, width: Fraction, avoid: Collection[int] = ()) -> bool:
        """Places a trial, on its own units if it can, or queues it.

        Args:
            trial: The trial.
            width: What it gets.
            avoid: Units to take only when no others are left.
        """
        candidates = sorted(
            (unit for unit in range(len(self._free)) if self._fits(unit, width)),
            key=lambda unit: (unit not in trial.units, unit in avoid, self._free[unit], unit),
        )
        count = max(int(width), 1)
        if len(candidates) < count:
            self.queued.append(trial.number)
            return False
        units = tuple(sorted(candidates[:count]))
        for unit in units:
            self._free[unit] -= min(width, Fraction(1))
            self._sharing[unit] += 1
        self.placed[trial.number] = Placement(width, units)
        return True

    def _fits(self, unit: int, width: Fraction) -> bool:
        if width >= 1:
            return self._free[unit] == 1
        return self._free[unit] >= width and self._sharing[unit] < self._max_share


def units_of(trials: Iterable[Trial]) -> set[int]:
    """The units that trials hold now."""
    return {unit for trial in trials for unit in trial.units}
