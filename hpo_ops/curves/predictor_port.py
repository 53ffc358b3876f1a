"""The port of learning-curve predictors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hpo_ops.core import Observation
from hpo_ops.curves.forecast import QuantileForecast


class CurvePredictor(Protocol):
    """Predicts how a learning curve goes on. A frozen value: the same curve, the same forecast."""

    def predict(
        self, observations: Sequence[Observation], *, last_step: int
    ) -> QuantileForecast | None:
        """The forecast from the last observation to the last step.

        None where the fit failed or there is too little to go by: then nothing is decided.
        """
        ...
