"""Fits learning curves in a process of its own, beside a training: a request file a line.

A line on standard input names a file with a request; the answer is written beside it. The process
ends when its input does, so that it never outlives the agent that started it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hpo_ops.core import Observation, derive_seed
from hpo_ops.curves import create_predictor
from hpo_ops.protocol import CurveForecast, ForecastOrder, write_aside

NICE = 10
"""The training goes first."""
DIGITS = 6


def answer_path(request: Path) -> Path:
    """Where the answer to a request is written."""
    return request.with_suffix(".answer")


def fit(order: ForecastOrder, curve: Sequence[tuple[int, float]]) -> CurveForecast:
    """The forecast behind the reported values of a trial; without steps where there is none."""
    step = curve[-1][0]
    seed = derive_seed(order.seed, "forecast", step)
    sign = 1.0 if order.is_maximized else -1.0
    observations = [Observation(at, sign * value, 0.0) for at, value in curve]
    try:
        predictor = create_predictor(order.predictor, order.options, seed=seed)
        made = predictor.predict(observations, last_step=order.last_step)
    except ModuleNotFoundError as error:
        return CurveForecast(
            step=step, note=f"{error.name} is not installed here: pip install 'hpo-ops[curves]'"
        )
    except Exception as error:  # noqa: BLE001, a fit that fails decides nothing
        return CurveForecast(step=step, note=f"the fit failed: {type(error).__name__}: {error}")
    if made is None:
        return CurveForecast(step=step, note=f"the fit to {len(curve)} reports gave no forecast")
    quantiles = [[float(f"{value:.{DIGITS}g}") for value in row] for row in made.quantiles]
    return CurveForecast(step=step, steps=list(made.steps), quantiles=quantiles)


def main() -> None:
    """Answers requests until there are no more."""
    os.nice(NICE)
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        request = json.loads(path.read_bytes())
        made = fit(ForecastOrder.from_dict(request["order"]), request["curve"])
        write_aside(answer_path(path), made.to_json())


if __name__ == "__main__":
    main()
