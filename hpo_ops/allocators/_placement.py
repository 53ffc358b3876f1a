"""Placement: assigns trials to the individual units (such as GPUs) of a pool."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction

from hpo_ops.core import Capacity, Placement, Trial


class Placer:
    """Places trials on the units of a pool, one after the other.

    A trial with a width of 1 or more occupies that many full units. A trial with a width below 1
    occupies this fraction of one unit, which at most ``max_share`` trials share. A trial whose
    width does not change keeps its units if they have room. Any other trial preferably gets units
    that are not held by trials that are still to be placed.

    Args:
        capacity: The units of the pool.
        trials: All trials that will be placed or queued.
    """

    def __init__(self, capacity: Capacity, trials: Sequence[Trial]) -> None:
        self._trials = trials
        self._full = math.lcm(*range(1, capacity.max_share + 1))
        """Number of parts of a unit, chosen so that every share is a whole number of parts."""
        self._free = [self._full] * capacity.units
        self._sharing = [0] * capacity.units
        self._empty = capacity.units
        self._max_share = capacity.max_share
        self.placed: dict[int, Placement] = {}
        self.queued: list[int] = []

    def empty_units(self, except_for: Collection[int] = ()) -> int:
        """Returns the number of units on which no trial has been placed.

        Args:
            except_for: Indexes of units that are not counted.
        """
        return self._empty - sum(
            unit < len(self._sharing) and not self._sharing[unit] for unit in set(except_for)
        )

    def place(self, trial: Trial, width: Fraction) -> None:
        """Places a trial, if possible on the units that it holds, or queues it without room."""
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
        """Returns the indexes of units for a trial, or an empty tuple if too few units have room.

        Args:
            trial: The trial.
            parts: Number of parts of each unit that the trial occupies (see ``_full``).
            count: Number of units that the trial needs.
        """
        if parts == self._full and self._empty < count:
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
        """Returns how many parts of each of its units a trial of the given width occupies.

        A unit has ``_full`` parts, so that trials can share it.
        """
        units, among = width.numerator, width.denominator
        return self._full if units >= among else -(-self._full * units // among)

    def _have_room(self, units: tuple[int, ...], parts: int) -> bool:
        free, sharing, is_full = self._free, self._sharing, parts == self._full
        for unit in units:
            if unit >= len(free) or free[unit] < parts:
                return False
            if not is_full and sharing[unit] >= self._max_share:
                return False
        return True


def units_of(trials: Iterable[Trial]) -> set[int]:
    """Returns the indexes of the units that trials hold now."""
    return {unit for trial in trials for unit in trial.units}
