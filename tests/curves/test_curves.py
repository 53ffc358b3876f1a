"""Learning curves: families, forecasts, remaining time, and both predictors."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from hpo_ops.core import Observation
from hpo_ops.curves import (
    CurvePredictor,
    McmcEnsemble,
    ProjectedEnsemble,
    QuantileForecast,
    WanderingEnsemble,
    create_predictor,
    expected_remaining,
    remaining_of,
)
from hpo_ops.curves.curve_families import FAMILIES
from hpo_ops.curves.forecast import LEVELS, future_steps
from hpo_ops.curves.mcmc import mixture_probability


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vap", 0.564631), ("ilog2", 0.600676), ("weibull", 0.157098), ("pow3", 0.331837),
        ("pow4", 0.332376), ("loglog_linear", 1.194706), ("mmf", 0.100006),
        ("janoschek", 0.492917), ("hill3", 0.536541), ("log_power", 0.319148),
        ("exp4", 0.608938),
    ],
)  # fmt: skip
def test_the_families_at_step_ten(name: str, value: float) -> None:  # HD-1
    family = next(family for family in FAMILIES if family.name == name)
    found = family(np.array([10.0]), *family.defaults.values())
    assert found[0] == pytest.approx(value, abs=1e-6)


def test_there_are_eleven_families_with_36_parameters() -> None:
    assert len(FAMILIES) == 11
    assert sum(len(family.defaults) for family in FAMILIES) == 36


@pytest.mark.parametrize(
    ("chances", "left", "x", "p", "seconds", "mean"),
    [
        ([0, 0.1, 0.3, 0.6, 0.8], 300, 3.0, 0.8, 180, 3.75),
        ([0, 0.1, 0.3, 0.6, 0.8], 180, 0.8, 0.3, 48, 2.667),
        ([0.5, 0.5, 0.4, 0.9, 0.9], 300, 2.1, 0.9, 126, 2.333),
        ([0, 0, 0, 0, 0.05], 300, 0.25, 0.05, 15, 5.0),
    ],
)
def test_the_remaining_time_table(  # HD-2
    chances: list[float], left: float, x: float, p: float, seconds: float, mean: float
) -> None:
    found = expected_remaining(chances, step_seconds=60, seconds_left=left)
    assert found.steps == pytest.approx(x)
    assert found.probability == pytest.approx(p)
    assert found.seconds == pytest.approx(seconds)
    assert found.mean_steps == pytest.approx(mean, abs=1e-3)


def test_no_chance_has_no_mean_time() -> None:
    assert expected_remaining([0.0], step_seconds=60, seconds_left=math.inf).mean_steps is None
    assert expected_remaining([0.9], step_seconds=60, seconds_left=59).probability == 0.0


def test_the_probability_of_two_samples() -> None:
    found = mixture_probability(0.77, np.array([0.75, 0.80]), np.array([0.02, 0.02]))
    assert found == pytest.approx(0.5459, abs=1e-4)


def curve(values: list[float]) -> list[Observation]:
    return [Observation(step, value, 60.0) for step, value in enumerate(values, start=1)]


def rising(seed: int = 0, count: int = 30) -> list[Observation]:
    random = np.random.default_rng(seed)
    steps = np.arange(1, count + 1)
    return curve(list(0.8 - 0.7 * np.exp(-0.1 * steps) + random.normal(0, 0.005, count)))


PREDICTORS = [ProjectedEnsemble(), WanderingEnsemble(), McmcEnsemble(steps=300, burn_in=200)]
NAMES = ["projected", "wandering", "mcmc"]


@pytest.mark.parametrize("predictor", PREDICTORS, ids=NAMES)
def test_a_rising_curve_is_forecast(predictor: CurvePredictor) -> None:  # HD-11
    forecast = predictor.predict(rising(), last_step=120)
    assert forecast is not None
    assert forecast.probability(0.60, by_step=120) >= 0.95
    assert forecast.probability(0.77, by_step=120) >= 0.9


@pytest.mark.parametrize("seed", range(5))
def test_a_rising_curve_is_forecast_whatever_the_noise(seed: int) -> None:  # HD-11
    forecast = ProjectedEnsemble().predict(rising(seed), last_step=120)
    assert forecast is not None
    assert forecast.probability(0.77, by_step=120) >= 0.9
    assert forecast.probability(0.99, by_step=120) <= 0.2


@pytest.mark.parametrize("predictor", PREDICTORS, ids=NAMES)
def test_a_flat_curve_stays_flat(predictor: CurvePredictor) -> None:  # HD-11
    forecast = predictor.predict(curve([0.10] * 30), last_step=120)
    assert forecast is not None
    assert forecast.probability(0.15, by_step=120) <= 0.05


def test_a_flat_curve_with_noise_stays_flat() -> None:  # HD-11
    random = np.random.default_rng(1)
    flat = curve([float(0.1 + noise) for noise in random.normal(0, 0.004, 30)])
    forecast = ProjectedEnsemble().predict(flat, last_step=120)
    assert forecast is not None
    assert forecast.probability(0.15, by_step=120) <= 0.05


@pytest.mark.parametrize("predictor", PREDICTORS, ids=NAMES)
def test_too_little_to_go_by_gives_no_forecast(predictor: CurvePredictor) -> None:  # HD-12
    assert predictor.predict([], last_step=120) is None
    assert predictor.predict(rising(count=3), last_step=120) is None
    assert predictor.predict(rising(), last_step=30) is None
    assert predictor.predict(curve([-math.inf] * 30), last_step=120) is None


def test_the_same_curve_gives_the_same_forecast() -> None:
    first = ProjectedEnsemble(seed=3).predict(rising(), last_step=60)
    second = ProjectedEnsemble(seed=3).predict(rising(), last_step=60)
    assert first is not None
    assert second is not None
    assert first.to_dict() == second.to_dict()


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


def simple() -> QuantileForecast:
    """The score at steps 10 and 20 is uniform from 0 to 1, and from 1 to 2."""
    return QuantileForecast((10, 20), (LEVELS, tuple(level + 1 for level in LEVELS)))


def test_a_probability_is_read_off_the_quantiles() -> None:
    assert simple().probability(0.25, by_step=10) == pytest.approx(0.75)
    assert simple().probability(1.25, by_step=20) == pytest.approx(0.75)
    assert simple().probability(0.5, by_step=15) == pytest.approx(0.75, abs=1e-3)
    assert simple().probability(5.0, by_step=20) < 0.001
    assert simple().probability(-5.0, by_step=20) > 0.999
    assert simple().probability(1.5, by_step=99) == simple().probability(1.5, by_step=20)
    assert simple().interval(10, 0.9) == pytest.approx((0.05, 0.95))
    assert simple().median(20) == 1.5


def test_a_forecast_survives_json() -> None:
    text = json.dumps(simple().to_dict())
    again = QuantileForecast.from_dict(json.loads(text))
    assert again.to_dict() == simple().to_dict()
    with pytest.raises(ValueError, match="lists of one length"):
        QuantileForecast.from_dict({"steps": [1]})
    with pytest.raises(ValueError, match="each row of quantiles"):
        QuantileForecast.from_dict({"steps": [1], "quantiles": [[0.5]]})


def test_many_steps_are_thinned_with_the_last_kept() -> None:
    assert future_steps(3, 6) == (4, 5, 6)
    steps = future_steps(10, 20_000)
    assert len(steps) == 48
    assert steps[-1] == 20_000


def test_steps_far_apart_can_be_forecast() -> None:
    seen = [Observation(o.step * 2000, o.score, 60.0) for o in rising(count=10)]
    forecast = ProjectedEnsemble().predict(seen, last_step=60_000)
    assert forecast is not None
    assert forecast.probability(0.3, by_step=60_000) > 0.9


def test_the_remaining_time_of_a_forecast() -> None:
    forecast = ProjectedEnsemble().predict(rising(), last_step=60)
    assert forecast is not None
    soon = remaining_of(
        forecast, 0.76, after_step=30, last_step=60, step_seconds=60, seconds_left=math.inf
    )
    assert 0.9 < soon.probability <= 1.0
    assert soon.mean_steps is not None
    assert 1 <= soon.mean_steps <= 12


def test_predictors_have_names_and_checked_options() -> None:
    assert create_predictor("projected", {"seed": 3}) == ProjectedEnsemble(seed=3)
    with pytest.raises(ValueError, match=r"curves\.walkers is 10, but must be 96 or more"):
        create_predictor("mcmc", {"walkers": 10})
    with pytest.raises(ValueError, match=r"curves\.smoothness is 2.0, but must be from"):
        create_predictor("wandering", {"smoothness": 2})
    with pytest.raises(ValueError, match=r"curves\.name is 'other', but must be one of"):
        create_predictor("other", {})
