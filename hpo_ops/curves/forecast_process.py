"""The process that forecasts the learning curve of a trial while the trial trains.

Each line on standard input is the path of a request file; the answer is written to a file beside
the request. The process exits when standard input is closed, so that it does not outlive the agent
that started it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hpo_ops.core import Observation, derive_seed
from hpo_ops.curves import create_predictor
from hpo_ops.protocol import CurveForecast, ForecastOrder, write_atomically

NICE = 10
"""Increment of the process's niceness, so that the training has priority."""
DIGITS = 6


def answer_path(request: Path) -> Path:
    """Returns the path of the file into which the answer to a request file is written."""
    return request.with_suffix(".answer")


def fit(order: ForecastOrder, curve: Sequence[tuple[int, float]]) -> CurveForecast:
    """Forecasts a trial's learning curve from its reported values.

    Args:
        order: The name of the predictor, its options, its seed, the last step to forecast, and
            whether a larger value is better.
        curve: Pairs of a reported step and the objective's value at that step.

    Returns:
        The forecast. If the predictor failed or returned no forecast, the result has no steps, and
        its ``note`` states the cause.
    """
    step = curve[-1][0]
    seed = derive_seed(order.seed, "forecast", step)
    sign = 1.0 if order.is_maximized else -1.0
    observations = [Observation(at, sign * value, 0.0) for at, value in curve]
    try:
        predictor = create_predictor(order.predictor, order.options, seed=seed)
        made = predictor.predict(observations, last_step=order.last_step)
    except ImportError as error:  # MissingPackageError, or a user's predictor
        return CurveForecast(step=step, note=str(error))
    except Exception as error:  # noqa: BLE001, a failed fit must not fail the trial
        return CurveForecast(step=step, note=f"the fit failed: {type(error).__name__}: {error}")
    if made is None:
        return CurveForecast(step=step, note=f"the fit to {len(curve)} reports gave no forecast")
    quantiles = [[float(f"{value:.{DIGITS}g}") for value in row] for row in made.quantiles]
    return CurveForecast(step=step, steps=list(made.steps), quantiles=quantiles)


def main() -> None:
    """Computes a forecast for each request file named on standard input, until that is closed."""
    os.nice(NICE)
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        request = json.loads(path.read_bytes())
        made = fit(ForecastOrder.from_dict(request["order"]), request["curve"])
        write_atomically(answer_path(path), made.to_json())


if __name__ == "__main__":
    main()
