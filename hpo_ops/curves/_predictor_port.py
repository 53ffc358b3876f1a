"""The port of learning-curve predictors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hpo_ops.core import Observation
from hpo_ops.curves.forecast import QuantileForecast


class MissingPackageError(ImportError):
    """A predictor needs a package that is not installed; the message says how to install it."""


class CurvePredictor(Protocol):
    """Forecasts learning curves. A frozen value: the same curve gives the same forecast."""

    def predict(
        self, observations: Sequence[Observation], *, last_step: int
    ) -> QuantileForecast | None:
        """The forecast from the last observation to the last step.

        None if the fit failed or there are too few observations; then the scheduler does not
        decide on the trial.

        Raises:
            MissingPackageError: An optional package is not installed.
        """
        ...
