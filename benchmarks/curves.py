"""Learning-curve predictors side by side: seconds a curve, and how often intervals are right.

Run ``python benchmarks/curves.py``. Curves of LCBench are used where ``--data`` is a file, of its
last four studies only: the priors of the projected ensemble were chosen on the first four.
Synthetic curves come from a seed and ranges that were not used for choosing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpo_ops.core import Observation
from hpo_ops.curves import CurvePredictor, McmcEnsemble, ProjectedEnsemble
from hpo_ops.curves.mcmc import Moves

LAST = 52
SEEN = (5, 10, 20, 30)


@dataclass(frozen=True)
class Row:
    """What one predictor did on one set of curves, seen to one step."""

    predictor: str
    curves: str
    seen: int
    fits: int
    failed: int
    cpu_seconds: float
    coverage: float
    width: float
    error: float


def lcbench(path: Path, each: int) -> list[list[float]]:
    """Curves of the last four studies."""
    with gzip.open(path, "rt") as stream:
        studies = json.load(stream)["studies"][4:]
    return [trial["value"] for study in studies for trial in study["trials"][-each:]]


def synthetic(count: int, seed: int = 20260) -> list[list[float]]:
    """Saturating curves of several kinds with noise, one kind a sum of two."""
    random = np.random.default_rng(seed)
    steps = np.arange(1, LAST + 1)
    curves = []
    for i in range(count):
        top, start = random.uniform(0.3, 0.95), random.uniform(0.05, 0.3)
        rate, power = random.uniform(0.03, 0.3), random.uniform(0.5, 2.0)
        to_go = [
            np.exp(-rate * steps),
            steps**-power,
            1 / (1 + (rate * steps) ** (1 + power / 2)),
            0.6 * np.exp(-0.4 * steps) + 0.4 * np.exp(-rate / 3 * steps),
        ][i % 4]
        noise = random.normal(0, random.choice([0.002, 0.005, 0.01, 0.02]), LAST)
        curves.append(list(map(float, top - (top - start) * to_go + noise)))
    return curves


def measure(
    name: str, predictor: CurvePredictor, label: str, curves: Sequence[Sequence[float]], seen: int
) -> Row:
    """Predicts the last step of each curve from its first ones."""
    inside, widths, errors, failed = [], [], [], 0
    start = time.process_time()
    forecasts = [
        predictor.predict(
            [Observation(i + 1, value, 1.0) for i, value in enumerate(curve[:seen])],
            last_step=LAST,
        )
        for curve in curves
    ]
    seconds = time.process_time() - start
    for curve, forecast in zip(curves, forecasts, strict=True):
        if forecast is None:
            failed += 1
            continue
        low, high = forecast.interval(LAST, 0.9)
        truth = curve[LAST - 1]
        inside.append(low <= truth <= high)
        widths.append(high - low)
        errors.append(abs(forecast.median(LAST) - truth))
    return Row(
        name,
        label,
        seen,
        len(curves),
        failed,
        seconds / len(curves),
        float(np.mean(inside)),
        float(np.median(widths)),
        float(np.mean(errors)),
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/lcbench_traces.json.gz"))
    parser.add_argument("--curves", type=int, default=100, help="curves of each set")
    parser.add_argument("--mcmc-curves", type=int, default=20, help="curves for the slow ones")
    parser.add_argument("--predictors", default="projected,mcmc", help="first words of names")
    options = parser.parse_args()
    sets = {"synthetic": synthetic(options.curves)}
    if options.data.is_file():
        sets["lcbench"] = lcbench(options.data, options.curves // 4)
    chosen = options.predictors.split(",")
    predictors: dict[str, CurvePredictor] = {
        "projected": ProjectedEnsemble(),
        "mcmc 100x700": McmcEnsemble(),
        "mcmc 100x700 differential": McmcEnsemble(moves=Moves.DIFFERENTIAL),
        "mcmc 100x2500": McmcEnsemble(steps=2500),
    }
    print(
        "predictor | curves | seen | fits | failed | cpu s/curve | coverage 90 % | width | error"
    )
    for name, predictor in predictors.items():
        if not any(name.startswith(word) for word in chosen):
            continue
        for label, curves in sets.items():
            stride = 1 if name == "projected" else max(1, len(curves) // options.mcmc_curves)
            for seen in SEEN:
                row = measure(name, predictor, label, curves[::stride], seen)
                print(
                    f"{row.predictor} | {row.curves} | {row.seen} | {row.fits} | {row.failed} | "
                    f"{row.cpu_seconds:.4f} | {row.coverage:.2f} | {row.width:.3f} | "
                    f"{row.error:.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
