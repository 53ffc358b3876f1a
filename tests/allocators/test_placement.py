"""Placement of trials on units."""

from __future__ import annotations

from fractions import Fraction

from hpo_ops.allocators._placement import Placer, units_of
from hpo_ops.core import Capacity, Trial


def running(number: int, *units: int) -> Trial:
    return Trial(number, width=Fraction(len(units)), units=units)


def test_a_trial_that_keeps_its_width_keeps_its_units() -> None:
    trials = [Trial(0), running(1, 0, 2)]
    placer = Placer(Capacity(4, max_width=2), trials)
    placer.place(trials[0], Fraction(1))
    placer.place(trials[1], Fraction(2))
    assert placer.placed[1].units == (0, 2)
    assert placer.placed[0].units == (1,)


def test_a_share_goes_where_the_least_is_free() -> None:
    trials = [Trial(number) for number in range(3)]
    placer = Placer(Capacity(2, max_share=2), trials)
    for trial in trials:
        placer.place(trial, Fraction(1, 2))
    assert [placer.placed[number].units for number in range(3)] == [(0,), (0,), (1,)]


def test_no_more_trials_share_a_unit_than_may() -> None:
    trials = [Trial(number) for number in range(3)]
    placer = Placer(Capacity(1, max_share=2), trials)
    for trial in trials:
        placer.place(trial, Fraction(1, 2))
    assert placer.queued == [2]


def test_a_trial_that_does_not_fit_is_queued_and_leaves_room() -> None:
    trials = [Trial(0), Trial(1), Trial(2)]
    placer = Placer(Capacity(3, max_width=4), trials)
    placer.place(trials[0], Fraction(2))
    placer.place(trials[1], Fraction(2))
    placer.place(trials[2], Fraction(1))
    assert placer.queued == [1]
    assert sorted(placer.placed) == [0, 2]


def test_units_that_were_removed_are_given_up() -> None:
    trial = running(0, 5)
    placer = Placer(Capacity(2), [trial])
    placer.place(trial, Fraction(1))
    assert placer.placed[0].units == (0,)


def test_empty_units_are_counted_without_the_exceptions() -> None:
    trials = [Trial(0)]
    placer = Placer(Capacity(4), trials)
    placer.place(trials[0], Fraction(1))
    assert placer.empty_units() == 3
    assert placer.empty_units({0, 1, 9}) == 2


def test_the_units_of_trials_are_those_they_hold() -> None:
    assert units_of([running(0, 1, 3), Trial(1), running(2, 4)]) == {1, 3, 4}
