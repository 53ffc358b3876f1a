"""Static and dynamic Fluid."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.allocators import DynamicFluid, StaticFluid, changes_of, fluid_widths
from hpo_ops.core import Capacity, Member, Study, TrialGroup, TrialState
from tests.contracts.allocator import AllocatorContract, apply, group_of

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)


class TestStaticFluid(AllocatorContract):
    name = "static_fluid"


class TestDynamicFluid(AllocatorContract):
    name = "dynamic_fluid"
    bad_options = (("min_seconds", -1.0),)


EXAMPLES = {
    "F1": ([6, 2, 1, 1], 5, 2, 4, [3, 1, HALF, HALF]),
    "F2": ([1, 1, 1, 1], 5, 2, 4, [1, 1, 1, 1]),
    "F3": ([10, 1, 1, 1], 5, 2, 4, [3, HALF, HALF, HALF]),
    "F4": ([100, 1, 1, 1], 8, 2, 4, [4, HALF, HALF, HALF]),
    "F5": ([1] * 10, 4, 2, 4, [HALF] * 10),
    "F6": ([1] * 16, 4, 4, 4, [QUARTER] * 16),
    "F7": ([9, 3, 3, 1], 8, 4, 4, [4, 1, 1, QUARTER]),
    "F8": ([7], 8, 2, 4, [4]),
    "F9": ([30, 1, 1, 1, 1], 5, 2, 4, [4, HALF, HALF, HALF, HALF]),
    "F10": ([5, 4, 3, 2, 1], 4, 2, 4, [1, 1, HALF, HALF, HALF]),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_worked_examples(name: str) -> None:  # FL-1, FL-2
    work, units, share, width, expected = EXAMPLES[name]
    assert fluid_widths(work, units=units, max_share=share, max_width=width) == expected


def test_the_toy_example_ends_together_with_every_unit_in_use() -> None:  # FL-1
    work = [6, 2, 1, 1]
    widths = fluid_widths(work, units=5, max_share=2, max_width=4)
    assert [amount / width for amount, width in zip(work, widths, strict=True)] == [2, 2, 2, 2]
    assert sum(widths) == 5


works = st.lists(st.integers(1, 10**6), min_size=1, max_size=20)


shapes = st.tuples(st.integers(0, 40), st.integers(1, 8), st.integers(1, 8))


@given(works, shapes)
def test_a_width_is_the_smallest_share_or_whole(  # FL-3
    work: list[int], shape: tuple[int, int, int]
) -> None:
    units, share, most = shape
    for width in fluid_widths(work, units=units, max_share=share, max_width=most):
        assert width == Fraction(1, share) or (width.denominator == 1 and 1 <= width <= most)


@given(works, shapes, st.sampled_from([Fraction(1000), Fraction(1, 1000)]))
def test_the_scale_of_work_does_not_matter(  # FL-5
    work: list[int], shape: tuple[int, int, int], scale: Fraction
) -> None:
    units, share, most = shape
    assert fluid_widths(work, units=units, max_share=share, max_width=most) == fluid_widths(
        [amount * scale for amount in work], units=units, max_share=share, max_width=most
    )


@given(works, shapes, st.randoms())
def test_permuting_trials_permutes_widths(  # FL-6
    work: list[int], shape: tuple[int, int, int], random: object
) -> None:
    units, share, most = shape
    order = list(range(len(work)))
    random.shuffle(order)  # type: ignore[attr-defined]
    plain = fluid_widths(work, units=units, max_share=share, max_width=most)
    mixed = fluid_widths([work[i] for i in order], units=units, max_share=share, max_width=most)
    assert mixed == [plain[i] for i in order]


def test_the_floor_is_exact() -> None:
    work = [0.1] * 10  # ten times 0.1 * 10 / (sum in doubles) is 10.000000000000002 or 0.99...
    assert fluid_widths(work, units=10, max_share=2, max_width=4) == [1] * 10


@pytest.mark.parametrize("work", [[1, 0], [-1, 2], [float("nan")]])
def test_work_must_be_more_than_nothing(work: list[float]) -> None:  # FL-13
    with pytest.raises(ValueError, match=r"work\[\d\] is .*, but must be more than 0"):
        fluid_widths(work, units=2, max_share=1, max_width=1)


@pytest.mark.parametrize(("name", "options"), [("max_share", (0, 1)), ("max_width", (1, 0))])
def test_bounds_must_be_one_or_more(name: str, options: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0, but must be 1 or more"):
        fluid_widths([1], units=1, max_share=options[0], max_width=options[1])


def allocate(work: list[int], capacity: Capacity) -> tuple[Study, TrialGroup]:
    study, group = group_of(work)
    apply(study, DynamicFluid(min_seconds=0).allocate(study, group, capacity, 0.0))
    return study, group


def widths_of(study: Study) -> list[Fraction]:
    return [trial.width for trial in study.trials]


def test_what_does_not_fit_is_queued() -> None:  # FL-7
    study, group = group_of([1] * 10)
    allocation = DynamicFluid(min_seconds=0).allocate(study, group, Capacity(4, 2, 4), 0.0)
    assert len(allocation.placed) == 8
    assert allocation.queued == (8, 9)


def test_more_units_widen_the_long_trial_only() -> None:  # FL-9, FL-10
    study, group = allocate([6, 2, 1, 1], Capacity(5, 2, 4))
    assert widths_of(study) == [3, 1, HALF, HALF]
    allocation = DynamicFluid(min_seconds=0).allocate(study, group, Capacity(8, 2, 4), 0.0)
    changes = changes_of(study, allocation)
    assert changes.resized == (0,)
    assert changes.paused == ()
    assert allocation.placed[0].width == 4
    assert set(study.trials[0].units) <= set(allocation.placed[0].units)


def test_fewer_units_pause_the_trial_with_the_least_work() -> None:  # FL-12
    study, group = allocate([6, 2, 1, 1], Capacity(5, 2, 4))
    allocation = DynamicFluid(min_seconds=0).allocate(study, group, Capacity(2, 2, 4), 0.0)
    assert [allocation.placed[n].width for n in (0, 1, 2)] == [1, HALF, HALF]
    assert changes_of(study, allocation).paused == (3,)


def test_a_later_group_gets_what_is_left() -> None:
    study, _ = group_of([3, 1, 1])
    members = [Member(trial=0, until_step=4, reason="a", group=0)]
    first = DynamicFluid(min_seconds=0).allocate(
        study, TrialGroup(tuple(members), "a"), Capacity(5, 2, 4), 0.0
    )
    apply(study, first)
    assert study.trials[0].width == 4
    members += [Member(trial=n, until_step=2, reason="b", group=1) for n in (1, 2)]
    both = DynamicFluid(min_seconds=0).allocate(
        study, TrialGroup(tuple(members), "b"), Capacity(5, 2, 4), 0.0
    )
    assert [both.placed[n].width for n in range(3)] == [4, HALF, HALF]
    assert changes_of(study, both).resized == ()


def test_what_runs_keeps_its_width_under_static_fluid() -> None:
    study, group = group_of([6, 2, 1, 1])
    apply(study, StaticFluid().allocate(study, group, Capacity(5, 2, 4), 0.0))
    study.move(1, TrialState.COMPLETED)
    rest = TrialGroup(tuple(m for m in group.members if m.trial != 1), "rest")
    changes = changes_of(study, StaticFluid().allocate(study, rest, Capacity(5, 2, 4), 0.0))
    assert changes.resized == ()
    assert changes.kept == (0, 2, 3)


def test_a_trial_that_is_nearly_done_keeps_its_width() -> None:
    study, group = allocate([60, 20, 10, 10], Capacity(5, 2, 4))
    late = TrialGroup((replace(group.members[0], until_step=10), *group.members[1:]), "late")
    allocation = DynamicFluid(min_seconds=4).allocate(study, late, Capacity(5, 2, 4), 0.0)
    assert allocation.placed[0].width == 3
    assert (
        DynamicFluid(min_seconds=2).allocate(study, late, Capacity(5, 2, 4), 0.0).placed[0].width
        != 3
    )
