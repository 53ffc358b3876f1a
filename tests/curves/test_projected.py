"""The projected ensemble."""

from __future__ import annotations

import numpy as np
import pytest

from hpo_ops.core import Observation
from hpo_ops.curves import CurvePredictor, ProjectedEnsemble
from tests.contracts.curve_predictor import CurvePredictorContract
from tests.curves.made_curves import curve, rising


class TestProjectedEnsemble(CurvePredictorContract):
    def make(self) -> CurvePredictor:
        return ProjectedEnsemble(seed=3)


@pytest.mark.parametrize("seed", range(5))
def test_a_rising_curve_is_forecast_whatever_the_noise(seed: int) -> None:  # HD-11
    forecast = ProjectedEnsemble().predict(rising(seed), last_step=120)
    assert forecast is not None
    assert forecast.probability(0.77, by_step=120) >= 0.9
    assert forecast.probability(0.99, by_step=120) <= 0.2


def test_a_flat_curve_with_noise_stays_flat() -> None:  # HD-11
    random = np.random.default_rng(1)
    flat = curve([float(0.1 + noise) for noise in random.normal(0, 0.004, 30)])
    forecast = ProjectedEnsemble().predict(flat, last_step=120)
    assert forecast is not None
    assert forecast.probability(0.15, by_step=120) <= 0.05


@pytest.mark.parametrize(("scale", "offset"), [(100.0, 0.0), (1.0, -5.0), (0.01, 3.0)])
def test_the_scale_of_scores_does_not_matter(scale: float, offset: float) -> None:
    plain = ProjectedEnsemble().predict(rising(), last_step=60)
    other = ProjectedEnsemble().predict(
        [Observation(o.step, o.score * scale + offset, o.seconds) for o in rising()], last_step=60
    )
    assert plain is not None
    assert other is not None
    for score in (0.7, 0.78, 0.85):
        assert other.probability(score * scale + offset, by_step=60) == pytest.approx(
            plain.probability(score, by_step=60), abs=1e-6
        )


def test_most_intervals_hold_the_truth() -> None:
    random = np.random.default_rng(77)
    steps = np.arange(1, 61)
    inside = 0
    for _ in range(60):
        top, rate = random.uniform(0.4, 0.9), random.uniform(0.05, 0.2)
        truth = top - (top - 0.1) * np.exp(-rate * steps) + random.normal(0, 0.005, 60)
        forecast = ProjectedEnsemble().predict(curve(list(truth[:20])), last_step=60)
        assert forecast is not None
        low, high = forecast.interval(60)
        inside += low <= truth[-1] <= high
    assert inside >= 51


def test_steps_far_apart_can_be_forecast() -> None:
    seen = [Observation(o.step * 2000, o.score, 60.0) for o in rising(count=10)]
    forecast = ProjectedEnsemble().predict(seen, last_step=60_000)
    assert forecast is not None
    assert forecast.probability(0.3, by_step=60_000) > 0.9
