"""The contract of allocators: the tests of each allocator inherit this class."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpo_ops.allocators import ALLOCATORS, changes_of, create_allocator
from hpo_ops.core import (
    Allocation,
    Allocator,
    Capacity,
    Goal,
    Member,
    StaticAllocator,
    Study,
    TrialGroup,
    TrialState,
)

capacities = st.builds(Capacity, st.integers(0, 9), st.integers(1, 4), st.integers(1, 5))
each_class = settings(suppress_health_check=[HealthCheck.differing_executors])
works = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def group_of(work: list[int]) -> tuple[Study, TrialGroup]:
    """A group of paused trials with these numbers of remaining steps."""
    study = Study(Goal(trials=99))
    for number, _ in enumerate(work):
        study.add()
        study.start(number)
        study.record(number, 1, (number * 7 % 5) / 5, 1.0, Fraction(1))
        study.move(number, TrialState.PAUSED)
    members = tuple(
        Member(trial=number, until_step=1 + steps, reason="runs")
        for number, steps in enumerate(work)
    )
    return study, TrialGroup(members, "all")


def apply(study: Study, allocation: Allocation) -> None:
    """Starts the trials as the allocation says."""
    for number, placement in allocation.placed.items():
        study.start(number, width=placement.width, units=placement.units)


class AllocatorContract:
    """Inherit, and set ``name`` and ``options``; ``bad_options`` are (option, value) pairs."""

    name: str
    options: ClassVar[Mapping[str, object]] = {}
    bad_options: tuple[tuple[str, object], ...] = ()

    def make(self) -> Allocator:
        return create_allocator(self.name, self.options)

    def test_it_is_registered_under_its_name(self) -> None:
        assert type(self.make()) is ALLOCATORS[self.name]

    @each_class
    @given(works, capacities)
    def test_what_is_placed_fits(self, work: list[int], capacity: Capacity) -> None:
        study, group = group_of(work)
        allocation = self.make().allocate(study, group, capacity, 0.0)
        load: Counter[int] = Counter()
        sharing: Counter[int] = Counter()
        for placement in allocation.placed.values():
            assert placement.width == len(placement.units) or len(placement.units) == 1
            assert placement.width <= max(capacity.max_width, 1)
            for unit in placement.units:
                assert 0 <= unit < capacity.units
                load[unit] += min(placement.width, Fraction(1))  # type: ignore[assignment]
                sharing[unit] += 1
        assert all(used <= 1 for used in load.values())
        assert all(count <= capacity.max_share for count in sharing.values())

    @each_class
    @given(works, capacities)
    def test_every_trial_is_placed_or_queued_once(
        self, work: list[int], capacity: Capacity
    ) -> None:
        study, group = group_of(work)
        allocation = self.make().allocate(study, group, capacity, 0.0)
        assert sorted([*allocation.placed, *allocation.queued]) == list(range(len(work)))
        assert allocation.reason
        if capacity.units:
            assert allocation.placed

    @each_class
    @given(works, capacities)
    def test_the_same_again_changes_nothing(self, work: list[int], capacity: Capacity) -> None:
        study, group = group_of(work)
        allocator = self.make()
        first = allocator.allocate(study, group, capacity, 0.0)
        assert allocator.allocate(study, group, capacity, 0.0) == first
        apply(study, first)
        members = tuple(m for m in group.members if m.trial in first.placed)
        if members:
            again = allocator.allocate(study, TrialGroup(members, "running"), capacity, 0.0)
            changes = changes_of(study, again)
            if {n: p.width for n, p in again.placed.items()} == {
                n: p.width for n, p in first.placed.items()
            }:
                assert not changes.resized
                assert not changes.paused

    @each_class
    @given(works, capacities)
    def test_reports_change_nothing_for_a_static_allocator(
        self, work: list[int], capacity: Capacity
    ) -> None:
        allocator = self.make()
        if not isinstance(allocator, StaticAllocator):
            return
        study, group = group_of(work)
        first = allocator.allocate(study, group, capacity, 0.0)
        apply(study, first)
        members = tuple(m for m in group.members if m.trial in first.placed)
        for number in first.placed:
            study.record(number, 2, number % 3, 5.0)
        again = allocator.allocate(study, TrialGroup(members, "running"), capacity, 5.0)
        if not first.queued:
            assert again.placed == first.placed

    def test_a_new_trial_must_have_a_number(self) -> None:
        study = Study(Goal(trials=3))
        group = TrialGroup((Member(reason="new"),), "new")
        with pytest.raises(ValueError, match="must be added to the study first"):
            self.make().allocate(study, group, Capacity(2), 0.0)

    def test_it_survives_pickling_and_json(self) -> None:
        allocator: Any = self.make()
        assert pickle.loads(pickle.dumps(allocator)) == allocator  # noqa: S301
        options = {item.name: getattr(allocator, item.name) for item in fields(allocator)}
        assert create_allocator(self.name, json.loads(json.dumps(options))) == allocator

    def test_an_unknown_option_is_named_with_the_allowed_ones(self) -> None:
        with pytest.raises(ValueError, match=r"allocator\.nonsense is not an option; allowed: "):
            create_allocator(self.name, {**self.options, "nonsense": 1})

    def test_a_bad_option_is_named_with_what_was_found(self) -> None:
        for option, value in self.bad_options:
            with pytest.raises(ValueError, match=rf"allocator\.{option} is .*, but must be "):
                create_allocator(self.name, {**self.options, option: value})
