"""The cache of forecasts."""

from __future__ import annotations

from hpo_ops.curves import ProjectedEnsemble
from hpo_ops.simulator import MemoPredictor
from tests.curves.made_curves import rising


def test_a_curve_is_fitted_once() -> None:
    cached = MemoPredictor(ProjectedEnsemble())
    first = cached.predict(rising(), last_step=60)
    assert cached.predict(rising(), last_step=60) is first
    assert cached.fits == 1


def test_another_curve_or_horizon_is_fitted_anew() -> None:
    cached = MemoPredictor(ProjectedEnsemble())
    cached.predict(rising(), last_step=60)
    cached.predict(rising(), last_step=61)
    cached.predict(rising(count=29), last_step=60)
    cached.predict(rising(seed=1), last_step=60)
    assert cached.fits == 4


def test_a_failed_fit_is_cached_too() -> None:
    cached = MemoPredictor(ProjectedEnsemble())
    assert cached.predict(rising(count=2), last_step=60) is None
    assert cached.predict(rising(count=2), last_step=60) is None
    assert cached.fits == 1
