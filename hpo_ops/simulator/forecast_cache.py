"""Forecasts that are made once for each curve."""

from __future__ import annotations

from collections.abc import Sequence

from hpo_ops.core import Observation
from hpo_ops.curves import CurvePredictor, QuantileForecast


class MemoPredictor:
    """Remembers the forecasts of another predictor.

    A forecast depends on the curve alone, not on the policy or the order of trials, so that many
    replays of the same traces share them.
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
