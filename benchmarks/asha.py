"""Compares our ASHA with those of Ray Tune and Syne Tune, on the same curves in the same orders.

``python -m benchmarks asha`` replays studies on virtual time. The simulator asks the schedulers of
the other tuners as it asks ours: a report in, continue or stop out. It needs nothing but the
standard library, so it can be run by any Python that has ``ray[tune]`` and ``syne-tune``. What is
not installed is left out.

What counts: GPU-hours spent, and how far the best value found is from the best there is.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any, Protocol

from benchmarks.policies import HOUR, load_lcbench
from hpo_ops.core import Action, Decision, Direction, Scheduler, Study, Trial, TrialGroup
from hpo_ops.schedulers import Asha
from hpo_ops.schedulers.slot_filling import fill_slots
from hpo_ops.simulator import Cluster, Traces, image_study, simulate

METRIC, TIME = "value", "step"


class Judge(Protocol):
    """The interface to another tuner's scheduler."""

    def add(self, trial: int) -> None: ...
    def goes_on(self, trial: int, step: int, value: float) -> bool: ...


@dataclass
class Theirs:
    """Another tuner's scheduler, for one replay."""

    judge: Judge
    max_steps: int
    known: set[int] = field(default_factory=set)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        return fill_slots(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.number not in self.known:
            self.known.add(trial.number)
            self.judge.add(trial.number)
        last = trial.observations[-1]
        value = study.goal.direction.to_value(last.score)
        if trial.step >= self.max_steps or self.judge.goes_on(trial.number, last.step, value):
            return Decision(Action.CONTINUE, "it says so")
        return Decision(Action.STOP, "it says so")


class RayTune:
    """``ray.tune.schedulers.AsyncHyperBandScheduler``."""

    def __init__(self, direction: Direction, max_steps: int) -> None:
        from ray.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler

        self._scheduler = AsyncHyperBandScheduler(
            time_attr=TIME,
            metric=METRIC,
            mode="max" if direction is Direction.MAXIMIZE else "min",
            max_t=max_steps,
            grace_period=1,
            reduction_factor=3,
        )
        self._go_on = TrialScheduler.CONTINUE

    def add(self, trial: int) -> None:
        self._scheduler.on_trial_add(None, SimpleNamespace(trial_id=str(trial)))

    def goes_on(self, trial: int, step: int, value: float) -> bool:
        told = {TIME: step, METRIC: value}
        named = SimpleNamespace(trial_id=str(trial))
        return bool(self._scheduler.on_trial_result(None, named, told) == self._go_on)


class SyneTune:
    """``syne_tune.optimizer.schedulers.asha.AsynchronousSuccessiveHalving``."""

    def __init__(self, direction: Direction, max_steps: int) -> None:
        from syne_tune.config_space import uniform
        from syne_tune.optimizer.scheduler import SchedulerDecision
        from syne_tune.optimizer.schedulers.asha import AsynchronousSuccessiveHalving

        self._scheduler = AsynchronousSuccessiveHalving(
            {"x": uniform(0, 1)},
            metric=METRIC,
            do_minimize=direction is not Direction.MAXIMIZE,
            time_attr=TIME,
            max_t=max_steps,
            grace_period=1,
            reduction_factor=3,
            random_seed=0,
        )
        self._go_on = SchedulerDecision.CONTINUE

    def add(self, trial: int) -> None:
        self._scheduler.on_trial_add(self._trial(trial))

    def goes_on(self, trial: int, step: int, value: float) -> bool:
        told = {TIME: step, METRIC: value}
        return bool(self._scheduler.on_trial_result(self._trial(trial), told) == self._go_on)

    @staticmethod
    def _trial(number: int) -> Any:
        return SimpleNamespace(trial_id=number, config={"x": 0.5})


OTHERS: dict[str, tuple[str, Callable[[Direction, int], Judge]]] = {
    "Ray Tune": ("ray", RayTune),
    "Syne Tune": ("syne_tune", SyneTune),
}


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks asha", description=__doc__)
    parser.add_argument("--orders", type=int, default=25)
    parser.add_argument("--studies", type=int, default=8)
    parser.add_argument("--lcbench", type=Path, help="traces of LCBench, beside synthetic ones")
    options = parser.parse_args(arguments)
    count = options.studies
    studies = [image_study(seed=1000 + seed, trials=100, steps=81) for seed in range(count)]
    compare(f"{count} synthetic studies, 100 trials of 81 steps", studies, options.orders)
    if options.lcbench:
        compare("LCBench, 100 trials of 52 steps", load_lcbench(options.lcbench), options.orders)


def compare(title: str, studies: list[Traces], orders: int) -> None:
    """Prints a line for each ASHA: means over all studies and orders."""
    print(f"{title}, 4 machines, {orders} orders: means")
    print(f"{'':12}{'GPU-hours':>11}{'makespan':>11}{'from best':>11}{'found it':>10}", flush=True)
    for name in ("hpo-ops", *OTHERS):
        if name in OTHERS and importlib.util.find_spec(OTHERS[name][0]) is None:
            print(f"{name:12}not installed", flush=True)
            continue
        spent, spans, gaps = [], [], []
        for traces in studies:
            for order in range(orders):
                replay = simulate(
                    traces.reorder(order),
                    scheduler_of(name, traces),
                    cluster=Cluster(units=4, start_seconds=1.0),
                )
                spent.append(replay.unit_seconds / HOUR)
                spans.append(replay.makespan / HOUR)
                gaps.append(gap(traces, replay.best[-1][1]))
        found = sum(value < 1e-9 for value in gaps) / len(gaps)
        print(
            f"{name:12}{fmean(spent):11.2f}{fmean(spans):9.2f} h{fmean(gaps):11.4f}{found:10.0%}",
            flush=True,
        )


def scheduler_of(name: str, traces: Traces) -> Scheduler:
    """A scheduler for one replay."""
    steps = max(len(trial.values) for trial in traces.trials)
    if name == "hpo-ops":
        return Asha(max_steps=steps)
    return Theirs(OTHERS[name][1](traces.direction, steps), steps)


def gap(traces: Traces, value: float) -> float:
    """The distance of a value from the best value of any trial."""
    score = traces.direction.to_score
    return max(score(seen) for trial in traces.trials for seen in trial.values) - score(value)


if __name__ == "__main__":
    main()
