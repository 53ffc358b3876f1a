"""Compares policies on replayed studies, and with the claims of the papers.

Run ``python -m benchmarks policies [pop] [machines] [lcbench] [hypersched] [fluid]``; all parts by
default. Traces of LCBench are read where ``--data`` is a file. The generators of the synthetic
studies were changed after results had been seen: docs/policies/measured.md says what was tried.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean

from hpo_ops.allocators import DynamicFluid, StaticFluid, Uniform
from hpo_ops.core import Direction, Scheduler
from hpo_ops.curves import (
    ProjectedEnsemble,
    WanderingEnsemble,
)
from hpo_ops.schedulers import (
    Asha,
    AshaPromoting,
    Bandit,
    Default,
    EarlyTerm,
    Halving,
    Hyperband,
    HyperSched,
    Median,
    Pop,
)
from hpo_ops.schedulers._hypersched import Variant
from hpo_ops.simulator import (
    Cluster,
    Summary,
    Traces,
    TrialTrace,
    compare,
    game_study,
    image_study,
    oracle_seconds,
    simulate,
    slow_study,
    summarize,
    uneven_study,
)
from hpo_ops.simulator.policy_comparison import Policy

HOUR = 3600.0
IMAGENET = (1.0, 1.77, 2.93, 4.29)
DRAWN_AGAIN = 2000
UNSEEN = 8000
"""First seed that was not used while policies and generators were developed."""


def load_lcbench(path: Path) -> list[Traces]:
    """The studies in a file of LCBench traces."""
    with gzip.open(path, "rt") as stream:
        studies = json.load(stream)["studies"]
    return [
        Traces(
            study["name"],
            study["metric"],
            Direction(study["direction"]),
            tuple(
                TrialTrace(tuple(trial["value"]), tuple(trial["seconds"]), trial["params"])
                for trial in study["trials"]
            ),
        )
        for study in studies
    ]


def interval(figure: Callable[[Sequence[int]], float], studies: int) -> str:
    """The 90 % bootstrap interval of a figure over studies.

    Orders of one study have their curves in common, so that studies are drawn and not replays.
    """
    random = Random(0)  # noqa: S311 (no secret)
    figures = sorted(
        figure([random.randrange(studies) for _ in range(studies)]) for _ in range(DRAWN_AGAIN)
    )
    return f"{figures[DRAWN_AGAIN // 20]:.4g} to {figures[-DRAWN_AGAIN // 20]:.4g}"


def to_target(
    studies: Sequence[tuple[Traces, float]],
    policies: Mapping[str, Scheduler | Policy],
    *,
    cluster: Cluster,
    orders: int,
) -> None:
    """Prints the time to the target of each policy, over all studies and orders."""
    rows: dict[str, list[Summary]] = {name: [] for name in policies}
    oracle = []
    for traces, target in studies:
        outcomes = compare(
            traces,
            policies,
            cluster=cluster,
            orders=orders,
            predictor=ProjectedEnsemble(),
            target=target,
        )
        found = summarize(outcomes)
        for row in found:
            rows[row.policy].append(row)
        oracle.append(oracle_seconds(traces, target, cluster=cluster) or 0.0)
        line = ", ".join(f"{row.policy} {row.seconds.mean / HOUR:.2f}" for row in found)
        print(f"  {traces.name}, target {target:.4g}: {line} h", flush=True)
    seconds = {name: [row.seconds.mean for row in mine] for name, mine in rows.items()}
    pop = fmean(seconds["pop"])
    print("  policy | mean h | least | most | reached | GPU-h | time / POP's | nine in ten")
    for name, mine in rows.items():
        mean = fmean(seconds[name])

        def ratio(drawn: Sequence[int], name: str = name) -> float:
            return sum(seconds[name][i] for i in drawn) / sum(seconds["pop"][i] for i in drawn)

        print(
            f"  {name} | {mean / HOUR:.2f} | {min(r.seconds.least for r in mine) / HOUR:.2f} | "
            f"{max(r.seconds.most for r in mine) / HOUR:.2f} | "
            f"{sum(r.reached for r in mine)}/{sum(r.orders for r in mine)} | "
            f"{fmean(r.unit_seconds.mean for r in mine) / HOUR:.2f} | {mean / pop:.2f} | "
            f"{interval(ratio, len(studies))}"
        )
    print(f"  oracle | {fmean(oracle) / HOUR:.2f} | | | | | {fmean(oracle) / pop:.2f}")


def pop_part(orders: int, studies: int) -> None:
    """HyperDrive's kinds of workload."""
    steps = 120
    policies: dict[str, Scheduler | Policy] = {
        "pop": Pop(max_steps=steps, kill_threshold=0.15),
        "bandit": Bandit(max_steps=steps),
        "early_term": EarlyTerm(max_steps=steps),
        "default": Default(max_steps=steps),
        "asha": Asha(min_steps=4, max_steps=steps),
        "hyperband": Hyperband(min_steps=4, max_steps=steps),
        "median": Median(max_steps=steps),
        "pop, wandering": Policy(
            scheduler=Pop(max_steps=steps, kill_threshold=0.15), predictor=WanderingEnsemble()
        ),
    }
    print("POP, images: 100 trials, 4 machines, target where the best trial settles")
    images = [image_study(seed=UNSEEN + i) for i in range(studies)]
    cluster = Cluster(units=4, start_seconds=5.0, resume_seconds=5.0)
    to_target([(t, t.settled_value()) for t in images], policies, cluster=cluster, orders=orders)
    print("POP, a game: 100 trials, 15 machines, target 200")
    steps = 100
    games = [game_study(seed=UNSEEN + i) for i in range(studies)]
    to_target(
        [(t, 200.0) for t in games],
        {
            "pop": Pop(max_steps=steps, kill_threshold=-100.0),
            "bandit": Bandit(max_steps=steps, low=-500.0, high=300.0),
            "early_term": EarlyTerm(max_steps=steps, boundary=10),
            "default": Default(max_steps=steps),
        },
        cluster=replace(cluster, units=15, resume_seconds=20.0),
        orders=orders,
    )


def machines_part(orders: int, studies: int) -> None:
    """Whether POP's gain grows with machines."""
    steps = 120
    policies: dict[str, Scheduler] = {
        "pop": Pop(max_steps=steps, kill_threshold=0.15),
        "bandit": Bandit(max_steps=steps),
    }
    images = [image_study(seed=2000 + i) for i in range(studies)]
    for units in (2, 4, 8, 15):
        print(f"POP, images, {units} machines")
        cluster = Cluster(units=units, start_seconds=5.0, resume_seconds=5.0)
        targets = [(t, t.settled_value()) for t in images]
        to_target(targets, policies, cluster=cluster, orders=orders)


def lcbench_part(orders: int, path: Path) -> None:
    """The same policies on curves of LCBench."""
    if not path.is_file():
        print(f"LCBench: {path} is not there, skipped")
        return
    steps = 52
    policies: dict[str, Scheduler] = {
        "pop": Pop(max_steps=steps, boundary=5),
        "bandit": Bandit(max_steps=steps, boundary=5),
        "early_term": EarlyTerm(max_steps=steps, boundary=13),
        "default": Default(max_steps=steps),
        "asha": Asha(max_steps=steps),
        "hyperband": Hyperband(max_steps=steps),
    }
    print("LCBench: 100 trials, 4 machines, target where the best trial settles")
    cluster = Cluster(units=4, start_seconds=1.0, resume_seconds=1.0)
    studies = [(traces, traces.settled_value()) for traces in load_lcbench(path)]
    to_target(studies, policies, cluster=cluster, orders=orders)


def hypersched_part(orders: int, studies: int) -> None:
    """The best value at deadlines, HyperSched beside ASHA."""
    slow = [slow_study(seed=UNSEEN + i) for i in range(studies)]
    quick = [quicken(image_study(seed=UNSEEN + i, trials=144, steps=200)) for i in range(studies)]
    for name, traces in (("slow curves", slow), ("quick curves", quick)):
        print(f"HyperSched, {name}: 144 trials, 8 GPUs, steps of about 20 s")
        at_deadlines(traces, orders)


def at_deadlines(traces: Sequence[Traces], orders: int) -> None:
    """Prints the best value at several deadlines."""
    steps = 200
    cluster = Cluster(
        units=8, max_width=8, start_seconds=10.0, resume_seconds=10.0, speedups=IMAGENET
    )
    policies: dict[str, Scheduler | Policy] = {
        "asha": Asha(min_steps=2, max_steps=steps, eta=4),
        "asha_promoting": AshaPromoting(min_steps=2, max_steps=steps, eta=4),
    }
    for variant in Variant:
        policies[f"hypersched {variant}"] = Policy(
            scheduler=HyperSched(min_steps=2, max_steps=steps, eta=4, variant=variant),
            allocator=Uniform(speedups=IMAGENET),
        )
    policies["hypersched speculative, as published"] = Policy(
        scheduler=HyperSched(min_steps=2, max_steps=steps, eta=4, readmit=False),
        allocator=Uniform(speedups=IMAGENET),
    )
    print("  deadline | policy | best | less ASHA's | nine in ten | trials | ends after | GPU use")
    for deadline in (900.0, 1800.0, 3600.0, 7200.0):
        made = [
            compare(study, policies, cluster=cluster, orders=orders, deadline_seconds=deadline)
            for study in traces
        ]
        best = {
            name: [
                fmean(item.best or 0.0 for item in outcomes if item.policy == name)
                for outcomes in made
            ]
            for name in policies
        }
        for row in summarize([outcome for outcomes in made for outcome in outcomes]):
            gains = [
                mine - asha for mine, asha in zip(best[row.policy], best["asha"], strict=True)
            ]

            def gain(drawn: Sequence[int], gains: Sequence[float] = gains) -> float:
                return fmean(gains[i] for i in drawn)

            print(
                f"  {deadline:.0f} | {row.policy} | {fmean(best[row.policy]):.4f} | "
                f"{fmean(gains):+.4f} | {interval(gain, len(traces))} | "
                f"{row.trials.mean:.1f} | {row.makespan.mean:.0f} | {row.utilization.mean:.2f}",
                flush=True,
            )


def quicken(traces: Traces) -> Traces:
    """The same study with steps of about 20 seconds."""
    trials = tuple(
        replace(trial, seconds=tuple(seconds / 3 for seconds in trial.seconds))
        for trial in traces.trials
    )
    return replace(traces, trials=trials)


def fluid_part(studies: int) -> None:
    """Completion time and utilization of synchronous halving under Fluid and without."""
    scheduler = Halving(max_steps=27)
    print("Fluid: synchronous halving of 27 trials, 4 GPUs, packed in pairs with 10 % overhead")
    print("  policy | completion / FIFO's | use / FIFO's | mean use | restarts")
    alone = Cluster(units=4, start_seconds=5.0, resume_seconds=5.0)
    shared = replace(
        alone, max_share=2, max_width=4, speedups=(1.0, 1.77, 2.93), sharing_overhead=(0.1,)
    )
    totals: dict[str, list[tuple[float, float, int]]] = {"fifo": [], "static": [], "dynamic": []}
    for seed in range(studies):
        traces = finer(uneven_study(seed=4000 + seed))
        runs = {
            "fifo": simulate(traces, finer_rungs(scheduler), cluster=alone),
            "static": simulate(
                traces, finer_rungs(scheduler), cluster=shared, allocator=StaticFluid()
            ),
            "dynamic": simulate(
                traces, finer_rungs(scheduler), cluster=shared, allocator=DynamicFluid()
            ),
        }
        for name, run in runs.items():
            totals[name].append((run.makespan, run.utilization, run.restarts))
    base = [makespan for makespan, _, _ in totals["fifo"]]
    use = fmean(utilization for _, utilization, _ in totals["fifo"])
    for name, found in totals.items():
        ratio = fmean(row[0] / fifo for row, fifo in zip(found, base, strict=True))
        mean_use = fmean(row[1] for row in found)
        print(
            f"  {name} | {ratio:.2f} | {mean_use / use:.2f} | {mean_use:.2f} | "
            f"{fmean(row[2] for row in found):.1f}"
        )


def finer(traces: Traces, times: int = 10) -> Traces:
    """The same study with each step cut into several, so that a resize loses little."""
    trials = tuple(
        TrialTrace(
            tuple(value for value in trial.values for _ in range(times)),
            tuple(seconds / times for seconds in trial.seconds for _ in range(times)),
            trial.params,
        )
        for trial in traces.trials
    )
    return replace(traces, trials=trials)


def finer_rungs(scheduler: Halving, times: int = 10) -> Halving:
    """The same rungs on finer steps."""
    return Halving(
        min_steps=scheduler.min_steps * times,
        max_steps=scheduler.max_steps * times,
        eta=scheduler.eta,
    )


def main() -> None:
    """Runs the parts that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/lcbench_traces.json.gz"))
    parser.add_argument("--orders", type=int, default=25)
    parser.add_argument("--studies", type=int, default=8, help="synthetic studies of each kind")
    options = parser.parse_args()
    orders, studies = options.orders, options.studies
    parts = {
        "pop": lambda: pop_part(orders, studies),
        "machines": lambda: machines_part(orders, max(studies // 2, 1)),
        "lcbench": lambda: lcbench_part(orders, options.data),
        "hypersched": lambda: hypersched_part(orders, studies),
        "fluid": lambda: fluid_part(5 * studies),
    }
    unknown = set(options.parts) - set(parts)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: must be among {', '.join(parts)}")
    for name in options.parts or parts:
        parts[name]()


if __name__ == "__main__":
    main()
