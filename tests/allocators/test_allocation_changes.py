"""The difference between an allocation and the running trials."""

from __future__ import annotations

from fractions import Fraction

from hpo_ops.allocators import changes_of
from hpo_ops.core import Allocation, Goal, Placement, Study

HALF = Fraction(1, 2)


def study_with(*held: tuple[Fraction, tuple[int, ...]]) -> Study:
    study = Study(Goal(trials=9))
    for width, units in held:
        study.start(study.add().number, width, units)
    return study


def test_each_trial_is_started_resized_paused_or_kept() -> None:
    study = study_with((Fraction(1), (0,)), (Fraction(1), (1,)), (Fraction(1), (2,)))
    study.add()
    placed = {
        0: Placement(Fraction(1), (0,)),
        1: Placement(Fraction(2), (1, 2)),
        3: Placement(Fraction(1), (3,)),
    }
    changes = changes_of(study, Allocation(placed, (2,), "one wider"))
    assert (changes.kept, changes.resized) == ((0,), (1,))
    assert (changes.paused, changes.started) == ((2,), (3,))


def test_full_units_are_interchangeable() -> None:
    study = study_with((Fraction(1), (0,)))
    changes = changes_of(study, Allocation({0: Placement(Fraction(1), (7,))}, (), "moved"))
    assert changes.kept == (0,)


def test_a_share_on_another_unit_is_a_restart() -> None:
    study = study_with((HALF, (0,)))
    changes = changes_of(study, Allocation({0: Placement(HALF, (1,))}, (), "moved"))
    assert changes.resized == (0,)


def test_a_queued_trial_that_does_not_run_stays_as_it_is() -> None:
    study = study_with()
    study.add()
    changes = changes_of(study, Allocation({}, (0,), "no units"))
    assert changes.paused == ()
