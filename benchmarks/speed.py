"""The simulator's speed in events a second, by scheduler and number of trials.

Run ``python -m benchmarks speed``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

from benchmarks.policies import IMAGENET
from hpo_ops.allocators import ALLOCATORS, Uniform
from hpo_ops.core import Allocator, Observation, Scheduler
from hpo_ops.curves import CurvePredictor, ProjectedEnsemble, QuantileForecast
from hpo_ops.curves.forecast import LEVELS
from hpo_ops.schedulers import (
    SCHEDULERS,
    Asha,
    Default,
    EarlyTerm,
    HyperSched,
    Pop,
    create_scheduler,
)
from hpo_ops.simulator import Cluster, Traces, image_study, simulate

SIZES = (1000, 4000, 10000)
SPEED_CLUSTER = Cluster(units=32)
GUESS = tuple(0.05 * NormalDist().inv_cdf(level) for level in LEVELS)
"""Quantiles of a guessed forecast, relative to the last score."""
WITHOUT_SPEED = {"early_term", "pbt"}
"""Schedulers that need curve fits, or copy trials, which traces cannot provide."""
SPEED_OPTIONS: Mapping[str, Mapping[str, object]] = {
    "patient": {"patience": 5},
    "percentile": {"percentile": 25.0},
    "pop": {"kill_threshold": 0.15},
    "threshold": {"lower": 0.15, "n_warmup_steps": 10},
}


class Guess:
    """A predictor without a fit: the last score, with a fixed spread."""

    def predict(
        self, observations: Sequence[Observation], *, last_step: int
    ) -> QuantileForecast | None:
        return QuantileForecast((last_step,), (tuple(observations[-1].score + z for z in GUESS),))


def replay_speed(
    traces: Traces,
    scheduler: Scheduler,
    *,
    times: int = 9,
    cluster: Cluster = SPEED_CLUSTER,
    allocator: Allocator | None = None,
    predictor: CurvePredictor | None = None,
) -> tuple[int, float]:
    """The number of log lines, and log lines a second of CPU time, the best of several runs.

    The best run shows what the code needs; the others also what else the machine did. The deadline
    is never reached, but with one HyperSched does its full work.
    """
    lines, best = 0, math.inf
    deadline = 1e9 if isinstance(scheduler, HyperSched) else None
    for _ in range(times):
        start = time.process_time()
        replay = simulate(
            traces,
            scheduler,
            cluster=cluster,
            allocator=allocator,
            predictor=predictor,
            target=traces.settled_value() if predictor is not None else None,
            stop_at_target=False,
            deadline_seconds=deadline,
        )
        best = min(best, time.process_time() - start)
        lines = len(replay.log)
    return lines, lines / best


def main() -> None:
    """Prints the speed of every scheduler and allocator, for several numbers of trials."""
    print("Speed of the simulator, 32 machines, 81 steps, CPU time, the best of nine")
    print("  policy | " + " | ".join(f"{trials} trials: log lines, lines/s" for trials in SIZES))
    studies = [image_study(seed=5000, trials=trials, steps=81) for trials in SIZES]

    def tell(name: str, scheduler: Scheduler, **options: Any) -> None:
        rows = [replay_speed(traces, scheduler, **options) for traces in studies]
        cells = " | ".join(f"{lines}, {speed:.0f}" for lines, speed in rows)
        print(f"  {name} | {cells}", flush=True)

    for name in sorted(SCHEDULERS.keys() - WITHOUT_SPEED):
        tell(name, create_scheduler(name, {"max_steps": 81, **SPEED_OPTIONS.get(name, {})}))
    tell("pop, forecasts guessed", Pop(max_steps=81, kill_threshold=0.15), predictor=Guess())
    tell("early_term, forecasts guessed", EarlyTerm(max_steps=81), predictor=Guess())
    shared = replace(SPEED_CLUSTER, max_share=2, max_width=4)
    for name, allocator in sorted(ALLOCATORS.items()):
        for scheduler in (Default(max_steps=81), Asha(max_steps=81)):
            words = f"{type(scheduler).__name__.lower()}+{name}"
            tell(words, scheduler, allocator=allocator(), cluster=shared, times=3)
    eight = Cluster(units=8, max_width=8, speedups=IMAGENET)
    uniform = Uniform(speedups=IMAGENET)
    tell("hypersched+uniform, 8", HyperSched(max_steps=81), allocator=uniform, cluster=eight)
    traces = image_study(seed=5000, trials=300, steps=81)
    for predictor in (None, ProjectedEnsemble()):
        start = time.process_time()
        replay = simulate(
            traces,
            Pop(max_steps=81, kill_threshold=0.15),
            cluster=SPEED_CLUSTER,
            predictor=predictor,
            target=0.99,
        )
        seconds = time.process_time() - start
        print(
            f"  POP, 300 trials, {replay.forecasts} fits: {seconds:.2f} s, {replay.events} reports"
        )


if __name__ == "__main__":
    main()
