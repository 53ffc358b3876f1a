"""Compares the stack's executor with Airflow's LocalExecutor: many short tasks, killed workers.

``python -m benchmarks executor`` starts one scheduler with both executors and runs the same DAG,
300 mapped tasks of 0.2 s, with each of them in turn; then once more with the stack's executor
while its worker processes are killed at random. Each task notes its try, so that a task that ran
twice or never is found. With the LocalExecutor the kills would hang the scheduler for good.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from benchmarks.lab import Cost, Lab, machine, write_json
from hpo_ops.stack._airflow_environment import EXECUTOR

LOCAL = "LocalExecutor"
NAPS = """
import pathlib, time
from datetime import timedelta
from airflow.sdk import DAG, task

with DAG({name!r}, schedule=None):

    @task(
        executor={executor!r}, retries=20, retry_delay=timedelta(0), max_active_tis_per_dagrun=16
    )
    def nap(number, ti=None):
        with pathlib.Path({notes!r}).open("a") as notes:
            notes.write(f"{{ti.run_id}} {{number}} {{ti.try_number}}\\n")
        time.sleep({seconds})

    nap.expand(number=list(range({tasks})))
"""


@dataclass(frozen=True, kw_only=True)
class Killing:
    """A run during which workers were killed."""

    wall_seconds: float
    kills: int
    doubled: int
    missing: int


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks executor", description=__doc__)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each task")
    parser.add_argument("--repeats", type=int, default=2, help="runs with each executor")
    parser.add_argument("--every", type=int, default=4, help="tasks that begin for each kill")
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    with _lab(options.tasks, options.seconds) as lab:
        lab.wait_for_dags("naps_local", "naps_stack")
        costs: dict[str, list[Cost]] = {"naps_local": [], "naps_stack": []}
        for _ in range(options.repeats):
            for name, seen in costs.items():
                cost = lab.run(name)
                seen.append(cost)
                load = machine()["load"]
                took = f"{cost.wall_seconds:.1f} s, {cost.cpu_seconds:.1f} s of CPU"
                print(f"  {name}: {took} (load {load})", flush=True)
        killing = _run_with_kills(lab, options.tasks, every=options.every, seed=options.seed)
    local, ours = (_median(seen, "wall_seconds") for seen in costs.values())
    local_cpu, our_cpu = (_median(seen, "cpu_seconds") for seen in costs.values())
    ratio, cpu_ratio = ours / local, our_cpu / local_cpu
    print(f"{options.tasks} tasks of {options.seconds:g} s, median of {options.repeats}:")
    print(f"  {LOCAL}: {local:.1f} s; {EXECUTOR.rpartition('.')[2]}: {ours:.1f} s")
    print(f"  ratio {ratio:.2f} (should be at most 1.10), of CPU time {cpu_ratio:.2f}")
    print(
        f"  with {killing.kills} workers killed: {killing.wall_seconds:.1f} s, "
        f"{killing.doubled} tries ran twice, {killing.missing} tasks never ran"
    )
    figures = {
        "costs": {name: [asdict(cost) for cost in seen] for name, seen in costs.items()},
        "ratio": ratio,
        "cpu_ratio": cpu_ratio,
        "with_kills": asdict(killing),
    }
    write_json(options.json, "executor", figures)


def _median(costs: list[Cost], figure: str) -> float:
    return statistics.median(getattr(cost, figure) for cost in costs)


def _lab(tasks: int, seconds: float) -> Lab:
    lab = Lab(environment={"AIRFLOW__CORE__EXECUTOR": f"{LOCAL},{EXECUTOR}"})
    for name, executor in (("naps_local", LOCAL), ("naps_stack", EXECUTOR)):
        source = NAPS.format(
            name=name,
            executor=executor,
            notes=str(lab.root / "notes"),
            tasks=tasks,
            seconds=seconds,
        )
        lab.add_dag(name, source)
    return lab


def _run_with_kills(lab: Lab, tasks: int, *, every: int, seed: int) -> Killing:
    chance, is_over, kills = random.Random(seed), threading.Event(), 0  # noqa: S311

    def kill() -> None:
        nonlocal kills
        before = len(_notes(lab))
        while not is_over.wait(chance.uniform(0.0, 0.2)):
            begun = len(_notes(lab)) - before
            if begun >= every * (kills + 1) and (workers := _workers(lab)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    chance.choice(workers).kill()
                    kills += 1

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        cost = lab.run("naps_stack")
    finally:
        is_over.set()
        killer.join()
    lines = [line.split() for line in _notes(lab)]
    tries = Counter((number, attempt) for run, number, attempt in lines if run == cost.run_id)
    return Killing(
        wall_seconds=cost.wall_seconds,
        kills=kills,
        doubled=sum(count > 1 for count in tries.values()),
        missing=tasks - len({number for number, _ in tries}),
    )


def _notes(lab: Lab) -> list[str]:
    """One line for each try of a task that began."""
    return (lab.root / "notes").read_text("utf-8").splitlines()


def _workers(lab: Lab) -> list[psutil.Process]:
    """The worker processes of the stack's executor, idle and busy ones."""
    title = f"airflow worker -- {EXECUTOR.rpartition('.')[2]}:"
    found = []
    for process in lab.stack.processes():
        with contextlib.suppress(psutil.Error):
            if " ".join(process.cmdline()).startswith(title):
                found.append(process)
    return found


if __name__ == "__main__":
    main()
