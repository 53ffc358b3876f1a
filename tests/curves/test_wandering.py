"""The wandering ensemble."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpo_ops.curves import CurvePredictor, WanderingEnsemble
from tests.contracts.curve_predictor import CurvePredictorContract
from tests.curves.made_curves import curve, rising


class TestWanderingEnsemble(CurvePredictorContract):
    def make(self) -> CurvePredictor:
        return WanderingEnsemble()


def unlike(random: np.random.Generator, kind: int, count: int = 60) -> list[float]:
    """A curve of one of several kinds, one of which wanders off as no family does."""
    steps = np.arange(1, count + 1)
    top, rate = random.uniform(0.4, 0.9), random.uniform(0.05, 0.2)
    power = random.uniform(0.4, 1.5)
    to_go = [
        np.exp(-rate * steps),
        steps**-power,
        0.6 * np.exp(-0.4 * steps) + 0.4 * np.exp(-rate / 3 * steps),
        np.exp(-rate * steps),
    ][kind]
    curve = top - (top - 0.1) * to_go + random.normal(0, random.choice([0.002, 0.01]), count)
    if kind == 3:
        strides = random.normal(0, 0.05, count) * np.sqrt(np.diff(np.log(steps), prepend=0.0))
        curve += np.cumsum(strides)
    return list(map(float, curve))


@pytest.mark.parametrize("seen", [10, 20, 30])
def test_nine_of_ten_intervals_hold_the_truth(seen: int) -> None:
    random = np.random.default_rng(7700 + seen)
    inside = 0
    for i in range(120):
        truth = unlike(random, i % 4)
        forecast = WanderingEnsemble(samples=1000).predict(curve(truth[:seen]), last_step=60)
        assert forecast is not None
        low, high = forecast.interval(60)
        inside += low <= truth[-1] <= high
    assert 0.83 <= inside / 120 <= 0.97


def test_a_curve_that_wanders_gets_a_wider_interval() -> None:
    plain = [0.8 - 0.7 * math.exp(-0.15 * step) for step in range(1, 31)]
    waves = [value + 0.04 * math.sin(step / 3) for step, value in enumerate(plain)]
    widths = []
    for values in (plain, waves):
        forecast = WanderingEnsemble().predict(curve(values), last_step=60)
        assert forecast is not None
        low, high = forecast.interval(60)
        widths.append(high - low)
    assert widths[1] > 3 * widths[0]


def test_a_curve_hardly_out_of_its_noise_may_rise_far() -> None:
    random = np.random.default_rng(5)
    noisy = curve([0.2 + 0.002 * s + float(random.normal(0, 0.01)) for s in range(1, 11)])
    clear = rising(count=10)
    lifts = []
    for values in (noisy, clear):
        plain = WanderingEnsemble(doubt=0.0).predict(values, last_step=60)
        wide = WanderingEnsemble().predict(values, last_step=60)
        assert plain is not None
        assert wide is not None
        assert wide.median(60) == pytest.approx(plain.median(60), abs=1e-3)
        (low, high), (wide_low, wide_high) = plain.interval(60), wide.interval(60)
        assert wide_low == pytest.approx(low, abs=1e-3)
        lifts.append((wide_high - wide.median(60)) / (high - plain.median(60)))
    assert lifts[0] > 1.5
    assert 1 <= lifts[1] < 1.2


def test_a_curve_that_falls_again_is_not_forecast_to_rise() -> None:
    values = [0.8 - 0.7 * math.exp(-0.3 * s) - 0.004 * max(s - 15, 0) for s in range(1, 31)]
    forecast = WanderingEnsemble().predict(curve(values), last_step=60)
    assert forecast is not None
    assert forecast.median(60) < values[-1]
    assert forecast.probability(max(values), by_step=60) < 0.1
