"""Compares learning-curve predictors: seconds a curve, and the coverage of their intervals.

Run ``python -m benchmarks curves``. The priors of the two quick ensembles were chosen on other
curves than these: on the first four studies of LCBench and synthetic curves of another seed, those
of ``wandering`` also on ``DEVELOPMENT`` of benchmarks/trained.py (``--development`` shows them).
Here are the last four studies of LCBench, where ``--data`` is a file, synthetic curves of this
seed, and ``TEST`` of benchmarks/trained.py: learners that scikit-learn trains on other data, where
it is installed. A loss is forecast as an agent does it: as its negative.
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

from benchmarks.trained import DEVELOPMENT, TEST, trained
from hpo_ops.core import Observation
from hpo_ops.curves import CurvePredictor, McmcEnsemble, ProjectedEnsemble, WanderingEnsemble
from hpo_ops.curves._mcmc import Moves
from hpo_ops.curves.forecast import LEVELS

LAST = 52
SEEN = (5, 10, 20, 30)


@dataclass(frozen=True)
class Row:
    """The results of one predictor on one set of curves, observed up to one step.

    Attributes:
        coverage: Share of the 90 % intervals of the last step that hold the truth.
        below: Share of the truths below their interval.
        width: Median width of the interval, in units of the curve's range without its first step.
        error: Mean distance of the median from the truth, in that unit.
        crps: Mean continuous ranked probability score in that unit; the less, the better.
        penalty: Mean interval score in that unit: the width, and 20 times the miss.
    """

    predictor: str
    curves: str
    seen: int
    fits: int
    failed: int
    cpu_seconds: float
    coverage: float
    below: float
    width: float
    error: float
    crps: float
    penalty: float


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


def crps(quantiles: Sequence[float], truth: float) -> float:
    """The continuous ranked probability score, as the mean of quantile losses."""
    levels = np.array(LEVELS)
    misses = truth - np.array(quantiles)
    weights = np.gradient(levels)
    losses = np.maximum(levels * misses, (levels - 1) * misses)
    return float(2 * (weights * losses).sum() / weights.sum())


def measure(
    name: str, predictor: CurvePredictor, label: str, curves: Sequence[Sequence[float]], seen: int
) -> Row:
    """Predicts the last step of each curve from its first ones."""
    found, failed = [], 0
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
        missed = max(low - truth, truth - high, 0.0)
        unit = max(float(np.ptp(curve[1:])), 1e-6)
        found.append(
            (
                missed == 0,
                truth < low,
                (high - low) / unit,
                abs(forecast.median(LAST) - truth) / unit,
                crps(forecast.quantiles[-1], truth) / unit,
                (high - low + 20 * missed) / unit,
            )
        )
    table = np.array(found, dtype=np.float64)
    coverage, below, _, error, score, penalty = map(float, table.mean(axis=0))
    return Row(
        predictor=name,
        curves=label,
        seen=seen,
        fits=len(curves),
        failed=failed,
        cpu_seconds=seconds / len(curves),
        coverage=coverage,
        below=below,
        width=float(np.median(table[:, 2])),
        error=error,
        crps=score,
        penalty=penalty,
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/lcbench_traces.json.gz"))
    parser.add_argument("--curves", type=int, default=100, help="curves of each set")
    parser.add_argument("--trained", type=int, default=60, help="networks of each kind; 0: none")
    parser.add_argument("--mcmc-curves", type=int, default=20, help="curves for the slow ones")
    parser.add_argument(
        "--predictors", default="projected,wandering,mcmc", help="first words of names"
    )
    parser.add_argument(
        "--development", action="store_true", help="trained learners to choose by, and no others"
    )
    options = parser.parse_args()
    tasks, seed, stride = (DEVELOPMENT, 4100, 1) if options.development else (TEST, 20261, 0)
    sets = {} if options.development else {"synthetic": synthetic(options.curves)}
    if options.development:
        print("development sets")
    elif options.data.is_file():
        sets["lcbench"] = lcbench(options.data, options.curves // 4)
    else:
        print(f"absent: LCBench, {options.data} is no file")
    try:
        sets |= {
            name: trained(task, options.trained, seed=seed + stride * i)
            for i, (name, task) in enumerate(tasks.items())
            if options.trained
        }
    except ModuleNotFoundError as error:
        print(f"absent: trained networks, {error.name} is not installed")
    chosen = options.predictors.split(",")
    predictors: dict[str, CurvePredictor] = {
        "projected": ProjectedEnsemble(),
        "wandering": WanderingEnsemble(),
        "mcmc 100x700": McmcEnsemble(),
        "mcmc 100x700 differential": McmcEnsemble(moves=Moves.DIFFERENTIAL),
        "mcmc 100x2500": McmcEnsemble(steps=2500),
    }
    print(
        "predictor | curves | seen | fits | failed | cpu s/curve | coverage 90 % | below | "
        "width | error | crps | interval score"
    )
    for name, predictor in predictors.items():
        if not any(name.startswith(word) for word in chosen):
            continue
        for label, curves in sets.items():
            is_slow = name.startswith("mcmc")
            each = max(1, len(curves) // options.mcmc_curves) if is_slow else 1
            for seen in SEEN:
                row = measure(name, predictor, label, curves[::each], seen)
                print(
                    f"{row.predictor} | {row.curves} | {row.seen} | {row.fits} | {row.failed} | "
                    f"{row.cpu_seconds:.4f} | {row.coverage:.2f} | {row.below:.2f} | "
                    f"{row.width:.3f} | {row.error:.4f} | {row.crps:.4f} | {row.penalty:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
