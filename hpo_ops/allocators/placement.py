"""Placement: which units a trial runs on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction

from hpo_ops.core import Capacity, Placement, Trial


class Placer:
    """The units of a pool while trials are placed on them.

    Whole widths take whole units; a share lies inside one unit, with at most ``max_share`` others.
    A trial that keeps its width keeps its units; another one takes units that no trial holds which
    is still to be placed, where there are such.

    Args:
        capacity: What there is.
        trials: All that are to be placed or queued.
    """

    def __init__(self, capacity: Capacity, trials: Sequence[Trial]) -> None:
        self._trials = trials
        self._whole = math.lcm(*range(1, capacity.max_share + 1))
        """Parts of a unit, so that every share is a whole number of them."""
        self._free = [self._whole] * capacity.units
        self._sharing = [0] * capacity.units
        self._empty = capacity.units
        self._max_share = capacity.max_share
        self.placed: dict[int, Placement] = {}
        self.queued: list[int] = []

    def empty_units(self, except_for: Collection[int] = ()) -> int:
        """Units that nobody has been placed on, without those excepted."""
        return self._empty - sum(
            unit < len(self._sharing) and not self._sharing[unit] for unit in set(except_for)
        )

    def place(self, trial: Trial, width: Fraction) -> None:
        """Places a trial, on its own units if it can, or queues it."""
        units, parts, held = trial.units, self._parts_of(width), trial.width
        if not units or (width is not held and width != held) or not self._have_room(units, parts):
            units = self._find(trial, parts, max(int(width), 1))
            if not units:
                self.queued.append(trial.number)
                return
        free, sharing = self._free, self._sharing
        for unit in units:
            free[unit] -= parts
            if not sharing[unit]:
                self._empty -= 1
            sharing[unit] += 1
        self.placed[trial.number] = Placement(width, units)

    def _find(self, trial: Trial, parts: int, count: int) -> tuple[int, ...]:
        """So many units for a trial; none where there are fewer."""
        if parts == self._whole and self._empty < count:
            return ()
        free, own, done = self._free, trial.units, {trial.number, *self.placed, *self.queued}
        held = units_of(other for other in self._trials if other.number not in done)
        found = sorted(
            (unit not in own, unit in held, free[unit], unit)
            for unit in range(len(free))
            if self._have_room((unit,), parts)
        )
        return tuple(sorted(unit for *_, unit in found[:count])) if len(found) >= count else ()

    def _parts_of(self, width: Fraction) -> int:
        """The parts of each of its units that a trial takes."""
        units, among = width.numerator, width.denominator
        return self._whole if units >= among else -(-self._whole * units // among)

    def _have_room(self, units: tuple[int, ...], parts: int) -> bool:
        free, sharing, is_whole = self._free, self._sharing, parts == self._whole
        for unit in units:
            if unit >= len(free) or free[unit] < parts:
                return False
            if not is_whole and sharing[unit] >= self._max_share:
                return False
        return True


def units_of(trials: Iterable[Trial]) -> set[int]:
    """The units that trials hold now."""
    return {unit for trial in trials for unit in trial.units}
