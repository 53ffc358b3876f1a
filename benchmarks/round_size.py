"""The cost of larger rounds for TPE: the best value found by the number of trials in a round.

A study in rounds has about 25 of them at most, so that a study with many trials proposes more of
them before it hears how they did. ``python -m benchmarks round_size`` runs studies of 300 trials
on functions with a known minimum, with rounds of 4 trials (75 rounds), 12 (the 25 rounds that a
study with parallelism 4 gets) and 30, and with random search, and prints the gap to the minimum
after a third and after all of the trials, as the median over seeds, beside rounds of 4.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import optuna
from optuna.storages import InMemoryStorage

from benchmarks.lab import write_json
from hpo_ops.core import Direction, TrialState, derive_seed
from hpo_ops.core.search_space import Categorical, Float, Int, Parameter, Space
from hpo_ops.samplers.optuna_search import Search

Params = Mapping[str, object]


def hartmann(params: Params) -> float:
    """Hartmann's function of six variables above its minimum, -3.32237."""
    weights = (1.0, 1.2, 3.0, 3.2)
    slopes = (
        (10, 3, 17, 3.5, 1.7, 8),
        (0.05, 10, 17, 0.1, 8, 14),
        (3, 3.5, 1.7, 10, 17, 8),
        (17, 8, 0.05, 10, 0.1, 14),
    )
    centres = (
        (1312, 1696, 5569, 124, 8283, 5886),
        (2329, 4135, 8307, 3736, 1004, 9991),
        (2348, 1451, 3522, 2883, 3047, 6650),
        (4047, 8828, 8732, 5743, 1091, 381),
    )
    point = [float(str(params[f"x{index}"])) for index in range(6)]
    total = sum(
        weight
        * math.exp(
            -sum(a * (x - p / 10_000) ** 2 for a, x, p in zip(slope, point, centre, strict=True))
        )
        for weight, slope, centre in zip(weights, slopes, centres, strict=True)
    )
    return 3.32237 - total


def network(params: Params) -> float:
    """A loss like that of a small network: learning rate, width, depth and optimiser interact."""
    rate = math.log10(float(str(params["lr"])))
    width, depth = int(str(params["width"])), int(str(params["depth"]))
    best_rate = {"sgd": -1.5, "adam": -3.0, "rmsprop": -3.3}[str(params["optimizer"])]
    best_rate -= 0.15 * (depth - 3)
    shape = (math.log2(width) - 7) ** 2 / 20 + (depth - 4) ** 2 / 30
    decay = (math.log10(float(str(params["decay"]))) + 4) ** 2 / 40
    penalty = {"sgd": 0.02, "adam": 0.0, "rmsprop": 0.05}[str(params["optimizer"])]
    return (rate - best_rate) ** 2 / 4 + shape + decay + penalty


_UNIT: dict[str, Parameter] = {f"x{index}": Float(low=0.0, high=1.0) for index in range(6)}
FUNCTIONS: Mapping[str, tuple[Space, Callable[[Params], float]]] = {
    "hartmann6": (Space(_UNIT), hartmann),
    "network": (
        Space(
            {
                "lr": Float(low=1e-6, high=1.0, log=True),
                "decay": Float(low=1e-8, high=1e-1, log=True),
                "width": Int(low=8, high=1024, log=True),
                "depth": Int(low=1, high=8),
                "optimizer": Categorical(choices=("sgd", "adam", "rmsprop")),
            }
        ),
        network,
    ),
}


def run(function: str, sampler: str, *, seed: int, trials: int, size: int) -> list[float]:
    """The least gap to the minimum after each trial of a study in rounds."""
    space, gap = FUNCTIONS[function]
    search = Search(
        storage=InMemoryStorage(),
        name=f"{function}-{sampler}-{size}-{seed}",
        space=space,
        directions=[Direction.MINIMIZE],
        sampler=sampler,
        options={},
        seed=derive_seed(seed, function),
    )
    best: list[float] = []
    while len(best) < trials:
        numbers = range(len(best), min(len(best) + size, trials))
        asked = [search.ask(number) for number in numbers]
        for number, params in zip(numbers, asked, strict=True):
            value = gap(params)
            search.tell(number, TrialState.COMPLETED, values=[value])
            best.append(min(value, best[-1] if best else math.inf))
    return best


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks round_size", description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 12, 30])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    trials = options.trials
    print(f"{trials} trials, median of {options.seeds} seeds: gap to the minimum")
    print(f"| function | proposed | after {trials // 3} | after {trials} | of the first row's |")
    print("|---|---|---|---|---|")
    figures: dict[str, float] = {}
    for function in FUNCTIONS:
        first = None
        rows = [*(("tpe", size) for size in options.sizes), ("random", options.sizes[0])]
        for sampler, size in rows:
            runs = [
                run(function, sampler, seed=seed, trials=trials, size=size)
                for seed in range(options.seeds)
            ]
            early, late = (median(best[at - 1] for best in runs) for at in (trials // 3, trials))
            first = first or late
            name = f"{sampler}, {size} at once" if sampler != "random" else "random"
            print(
                f"| {function} | {name} | {early:.4g} | {late:.4g} | {late / first:.2f} |",
                flush=True,
            )
            figures[f"{function} {name}"] = late
    write_json(options.json, "round_size", {**vars(options), "gaps": figures})


if __name__ == "__main__":
    main()
