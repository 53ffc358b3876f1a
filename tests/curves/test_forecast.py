"""Forecasts as quantiles."""

from __future__ import annotations

import json

import pytest

from hpo_ops.curves import QuantileForecast
from hpo_ops.curves.forecast import LEVELS, future_steps


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
