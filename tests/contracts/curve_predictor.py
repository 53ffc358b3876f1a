"""The contract of curve predictors: the tests of each predictor inherit this class."""

from __future__ import annotations

import math
import pickle

from hpo_ops.curves import CurvePredictor
from tests.curves.made_curves import curve, rising


class CurvePredictorContract:
    """Inherit, and say how to make a predictor."""

    def make(self) -> CurvePredictor:
        raise NotImplementedError

    def test_a_rising_curve_is_forecast(self) -> None:  # HD-11
        forecast = self.make().predict(rising(), last_step=120)
        assert forecast is not None
        assert forecast.probability(0.60, by_step=120) >= 0.95
        assert forecast.probability(0.77, by_step=120) >= 0.9

    def test_a_flat_curve_stays_flat(self) -> None:  # HD-11
        forecast = self.make().predict(curve([0.10] * 30), last_step=120)
        assert forecast is not None
        assert forecast.probability(0.15, by_step=120) <= 0.05

    def test_too_few_observations_give_no_forecast(self) -> None:  # HD-12
        predictor = self.make()
        assert predictor.predict([], last_step=120) is None
        assert predictor.predict(rising(count=3), last_step=120) is None
        assert predictor.predict(rising(), last_step=30) is None
        assert predictor.predict(curve([-math.inf] * 30), last_step=120) is None

    def test_the_same_curve_gives_the_same_forecast(self) -> None:
        first = self.make().predict(rising(), last_step=60)
        second = self.make().predict(rising(), last_step=60)
        assert first is not None
        assert second is not None
        assert first.to_dict() == second.to_dict()

    def test_it_survives_pickling(self) -> None:
        predictor = self.make()
        assert pickle.loads(pickle.dumps(predictor)) == predictor  # noqa: S301
