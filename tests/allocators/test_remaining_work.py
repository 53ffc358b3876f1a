"""The remaining work of trials."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.allocators import DynamicFluid
from hpo_ops.allocators._remaining_work import on_one_scale, work_of
from hpo_ops.core import Capacity, Goal, Member, Study
from tests.contracts.allocator import group_of


def test_work_is_steps_times_the_time_of_a_step_on_one_unit() -> None:
    study, group = group_of([4, 4])
    study.record(0, 2, 0.5, 5.0, Fraction(2))  # 10 s on one unit
    allocation = DynamicFluid(min_seconds=0).allocate(study, group, Capacity(4, 2, 4), 0.0)
    assert allocation.placed[0].width == 3
    assert allocation.placed[1].width == Fraction(1, 2)


def test_a_trial_without_a_timing_takes_the_mean_of_the_others() -> None:
    study = Study(Goal(trials=3))
    for number, seconds in enumerate((2.0, 4.0)):
        study.start(study.add().number)
        study.record(number, 1, 0.5, seconds, Fraction(1))
    study.add()
    members = [Member("runs", number, 5) for number in range(3)]
    assert [item.seconds for item in work_of(study, members)] == [8.0, 16.0, 15.0]


def test_without_any_timing_the_steps_count() -> None:
    study = Study(Goal(trials=2))
    study.add()
    study.add()
    members = [Member("runs", 0, 5), Member("runs", 1, None)]
    assert [item.seconds for item in work_of(study, members)] == [5.0, 1.0]


@given(st.lists(st.fractions(min_value=0.001, max_value=1000), min_size=1, max_size=9))
def test_integers_on_one_scale_keep_the_proportions(amounts: list[Fraction]) -> None:
    scaled = on_one_scale(amounts)
    assert all(type(amount) is int for amount in scaled)
    assert [Fraction(s, scaled[0]) for s in scaled] == [a / amounts[0] for a in amounts]
