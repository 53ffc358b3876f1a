"""HyperSched's resizing rule, against the figures of the paper."""

from __future__ import annotations

import math

import pytest

from hpo_ops.allocators._hypersched_resizing import is_worth_resizing, resize_gain, startup_seconds
from hpo_ops.core import TrialState
from tests.allocators.scored_studies import IMAGENET, scored


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


def test_the_start_up_is_the_90th_percentile_of_the_newest() -> None:
    study, _ = scored(*[0.5] * 11, startups=range(11))
    assert startup_seconds(study) == 9.0
    study.move(10, TrialState.PAUSED)
    study.start(10).startup_seconds = 8.5
    assert startup_seconds(study) == 9.0  # it has not come to a step yet
    study.record(10, 8, 0.5, 10.0)
    assert startup_seconds(study) == 8.5
    assert startup_seconds(scored()[0]) == 0.0
