"""The protocol that learning-curve predictors implement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hpo_ops.core import Observation
from hpo_ops.curves.forecast import QuantileForecast


class MissingPackageError(ImportError):
    """A predictor needs a package that is not installed; the message names the pip command."""


class CurvePredictor(Protocol):
    """Forecasts learning curves.

    A predictor is an immutable object: the same observations always give the same forecast.
    """

    def predict(
        self, observations: Sequence[Observation], *, last_step: int
    ) -> QuantileForecast | None:
        """Forecasts the scores from the step after the last observation to ``last_step``.

        Returns None if the fit failed or there are too few observations; a trial without a
        forecast continues.

        Raises:
            MissingPackageError: A package that the predictor needs is not installed.
        """
        ...
