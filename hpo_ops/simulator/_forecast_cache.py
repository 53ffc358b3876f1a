"""Caches forecasts of learning curves, so that each curve is fitted once."""

from __future__ import annotations

from collections.abc import Sequence

from hpo_ops.core import Observation
from hpo_ops.curves import CurvePredictor, QuantileForecast


class MemoPredictor:
    """A predictor that caches the forecasts of another predictor.

    A forecast depends only on the learning curve, not on the policy or the order in which trials
    are replayed, so many replays of the same traces can share the cache.

    Attributes:
        fits: Number of forecasts that were computed because they were not in the cache.
    """

    def __init__(self, predictor: CurvePredictor) -> None:
        self._predictor = predictor
        self._known: dict[tuple[object, ...], QuantileForecast | None] = {}
        self.fits = 0

    def predict(
        self, observations: Sequence[Observation], *, last_step: int
    ) -> QuantileForecast | None:
        first, last = observations[0], observations[-1]
        key = (len(observations), first.score, last.step, last.score, last_step)
        if key not in self._known:
            self.fits += 1
            self._known[key] = self._predictor.predict(observations, last_step=last_step)
        return self._known[key]
