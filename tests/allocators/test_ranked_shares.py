"""Even, uniform and top-trial allocation, and the resizing rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import pytest

from hpo_ops.allocators import Even, TopTrial, Uniform
from hpo_ops.allocators.hypersched_resizing import is_worth_resizing, resize_gain, startup_seconds
from hpo_ops.allocators.ranked_shares import uniform_widths
from hpo_ops.core import Capacity, Goal, Member, Study, TrialGroup, TrialState
from hpo_ops.core.unit_scaling import speedup
from tests.contracts.allocator import AllocatorContract

IMAGENET = (1.0, 1.77, 2.93, 4.29)


class TestEven(AllocatorContract):
    name = "even"


class TestTopTrial(AllocatorContract):
    name = "top_trial"


class TestUniform(AllocatorContract):
    name = "uniform"
    options: ClassVar = {"speedups": [1.0, 1.77], "cool_down": 0}
    bad_options = (("min_gain", 0.5), ("cool_down", -1))


@pytest.mark.parametrize(
    ("trials", "expected"),
    [(8, [1] * 8), (5, [2, 2, 2, 1, 1]), (3, [3, 3, 2]), (2, [4, 4]), (1, [8])],
)
def test_the_uniform_splits(trials: int, expected: list[int]) -> None:  # HS-3
    assert uniform_widths(trials, 8, 8) == expected


def scored(*scores: float, startups: Sequence[float] = ()) -> tuple[Study, TrialGroup]:
    study = Study(Goal(trials=20, deadline_seconds=1000.0))
    for number, score in enumerate(scores):
        study.add()
        study.start(number).startup_seconds = startups[number] if startups else 0.0
        for step in range(1, 8):
            study.record(number, step, score, 10.0)
    members = tuple(Member(trial=n, until_step=100, reason="runs") for n in range(len(scores)))
    return study, TrialGroup(members, "all")


def test_the_best_scores_get_the_extra_units_first() -> None:  # HS-3
    study, group = scored(0.1, 0.9, 0.5, 0.7, 0.3)
    placed = Uniform().allocate(study, group, Capacity(8, 1, 8), 0.0).placed
    assert [placed[n].width for n in range(5)] == [1, 2, 2, 2, 1]


def test_more_trials_than_units_wait_by_score() -> None:
    study, group = scored(0.1, 0.9, 0.5)
    allocation = Uniform().allocate(study, group, Capacity(2, 1, 8), 0.0)
    assert sorted(allocation.placed) == [1, 2]
    assert allocation.queued == (0,)


@pytest.mark.parametrize(
    ("old", "new", "left", "gain", "worth"),
    [(1, 2, 600, 1.652, True), (7, 8, 600, 1.014, False), (4, 8, 100, 0.879, False)],
)
def test_the_resize_ratios(  # HS-4
    old: int, new: int, left: float, gain: float, worth: bool
) -> None:
    found = resize_gain(old=old, new=new, seconds_left=left, startup=40, speedups=IMAGENET)
    assert found == pytest.approx(gain, abs=6e-4)
    assert worth is is_worth_resizing(
        old=old, new=new, seconds_left=left, startup=40, reports=6, speedups=IMAGENET
    )


@pytest.mark.parametrize(("old", "new", "left"), [(4, 8, 160.8), (1, 2, 105.7)])
def test_resizing_breaks_even(old: int, new: int, left: float) -> None:  # HS-4
    gain = resize_gain(old=old, new=new, seconds_left=left, startup=40, speedups=IMAGENET)
    assert gain == pytest.approx(1.1, abs=2e-3)


def test_nothing_is_resized_while_it_cools_down() -> None:
    assert not is_worth_resizing(old=1, new=2, seconds_left=math.inf, startup=0, reports=5)
    assert is_worth_resizing(old=1, new=2, seconds_left=math.inf, startup=0, reports=6)


def test_a_running_trial_is_widened_only_where_it_pays() -> None:
    study, group = scored(0.9, startups=[40.0])
    uniform = Uniform(speedups=IMAGENET)
    wide = uniform.allocate(study, group, Capacity(8, 1, 8), 0.0)
    assert wide.placed[0].width == 8
    late = uniform.allocate(study, group, Capacity(8, 1, 8), 955.0)
    assert late.placed[0].width == 1


def test_the_start_up_is_the_90th_percentile_of_the_newest() -> None:
    study, _ = scored(*[0.5] * 11, startups=range(11))
    assert startup_seconds(study) == 9.0
    study.move(10, TrialState.PAUSED)
    study.start(10).startup_seconds = 8.5
    assert startup_seconds(study) == 9.0  # it has not come to a step yet
    study.record(10, 8, 0.5, 10.0)
    assert startup_seconds(study) == 8.5
    assert startup_seconds(scored()[0]) == 0.0


def test_the_best_trial_gets_all_that_is_spare() -> None:
    study, group = scored(0.1, 0.9, 0.5)
    placed = TopTrial().allocate(study, group, Capacity(8, 1, 8), 0.0).placed
    assert [placed[n].width for n in range(3)] == [1, 6, 1]


@pytest.mark.parametrize(
    ("trials", "width"), [(2, Fraction(4)), (3, Fraction(2)), (9, Fraction(1, 2))]
)
def test_even_gives_everyone_the_same(trials: int, width: Fraction) -> None:
    study, group = scored(*[0.5] * trials)
    placed = Even().allocate(study, group, Capacity(8, 4, 8), 0.0).placed
    assert {placement.width for placement in placed.values()} == {width}
    assert len(placed) == trials


def test_speed_is_interpolated() -> None:
    assert speedup(7, IMAGENET) == pytest.approx(3.95)
    assert speedup(16, IMAGENET) == 4.29
    assert speedup(Fraction(1, 2), IMAGENET) == 0.5
    assert speedup(3) == 3.0
