"""The cost of a trial, compared with a bare Airflow task and with other tuners if installed.

``python -m benchmarks overhead`` starts one stack and runs on it, one after the other, a DAG with
a mapped task that does nothing, and a rolling study of as many trials that report one value and
end. The cost is that of the entire DAG run, with its preparation and its end, divided by the
instances: as wall time, and as CPU time of all processes of the stack. ``ratio`` is wall time
beside wall time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

from benchmarks.lab import Cost, Lab, machine, write_json

TRAIN = """
import time
from hpo_ops.sdk import trial
time.sleep({seconds})
trial.report(1, trial.params["x"])
"""
SHELL = """
echo '{"step": 1, "metrics": {"value": 0.5}}' >> "$HPO_DIR/reports.jsonl"
"""
BARE = """
from airflow.sdk import DAG, task

for name, count in {counts!r}.items():
    with DAG(name, schedule=None, max_active_tasks={parallelism} + 16) as dag:

        @task(max_active_tis_per_dagrun={parallelism})
        def nothing(number):
            return number

        nothing.expand(number=list(range(count)))
    globals()[name] = dag
"""
SHORT_TRIALS = 64
SHORT_SECONDS = 0.1
SHORT_PARALLELISM = 2


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks overhead", description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--parallelism", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repeat", type=int, default=1, help="pairs of runs; the median counts")
    parser.add_argument("--command", default="python train.py", help="or: sh train.sh")
    parser.add_argument("--no-others", action="store_true", help="without Ray Tune and Syne Tune")
    parser.add_argument(
        "--others-python", default=sys.executable, help="interpreter that has Ray Tune, Syne Tune"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    before = machine()
    trials, parallelism = options.trials, options.parallelism
    lab = Lab()
    code = str(lab.add_code("code", train_py=TRAIN.format(seconds=0), train_sh=SHELL))
    counts = {"bare": trials, "bare_warm_up": 4}
    lab.add_dag("bare", BARE.format(counts=counts, parallelism=parallelism))
    lab.add_study(_study("ours", code, trials, parallelism, options.command))
    lab.add_study(_study("ours_warm_up", code, 4, parallelism, options.command))
    short = str(lab.add_code("short", train_py=TRAIN.format(seconds=SHORT_SECONDS)))
    lab.add_study(_study("short", short, SHORT_TRIALS, SHORT_PARALLELISM))
    with lab:
        lab.wait_for_dags("bare", "bare_warm_up", "ours", "ours_warm_up", "short")
        lab.run("bare_warm_up")
        lab.run("ours_warm_up")
        print(f"{trials} instances, {parallelism} at once, command: {options.command}")
        figures = compare_with_airflow(lab, trials, options.repeat)
        if not options.no_others:
            figures["others"] = compare_with_others(lab, options.others_python)
    write_json(options.json, "overhead", {"machine_before": before, **vars(options), **figures})


def compare_with_airflow(lab: Lab, trials: int, repeat: int) -> dict[str, Any]:
    """Trivial trials beside instances of a task that does nothing."""
    pairs: list[tuple[Cost, Cost]] = []
    print(f"{'':24}{'wall ms':>10}{'CPU ms':>10}   an instance", flush=True)
    for _ in range(repeat):
        pair = lab.run("bare"), lab.run("ours")
        for name, cost in zip(("bare Airflow task", "trial of a study"), pair, strict=True):
            _print_cost(name, cost, trials)
        pairs.append(pair)
    ratio = statistics.median(ours.wall_seconds / bare.wall_seconds for bare, ours in pairs)
    cpu_ratio = statistics.median(ours.cpu_seconds / bare.cpu_seconds for bare, ours in pairs)
    print(f"CPU ratio: {cpu_ratio:.2f}")
    print(f"ratio: {ratio:.2f}", flush=True)
    return {
        "bare": [bare for bare, _ in pairs],
        "ours": [ours for _, ours in pairs],
        "ratio": ratio,
        "cpu_ratio": cpu_ratio,
    }


def _study(
    name: str, code: str, trials: int, parallelism: int, command: str = "python train.py"
) -> dict[str, Any]:
    return {
        "name": name,
        "code": code,
        "command": command,
        "metric": {"name": "value", "direction": "maximize"},
        "space": {"x": {"float": [0, 1]}},
        "sampler": "random",
        "flow": "rolling",
        "trials": trials,
        "parallelism": parallelism,
    }


def _print_cost(name: str, cost: Cost, count: int) -> None:
    wall, cpu = 1000 * cost.wall_seconds / count, 1000 * cost.cpu_seconds / count
    print(f"{name:24}{wall:10.0f}{cpu:10.0f}   load {machine()['load']}", flush=True)


# -- other tuners ----------------------------------------------------------------------------

RAY = """
import time, ray
from ray import tune

def train(config):
    time.sleep({seconds})
    tune.report({{"value": config["x"]}})

ray.init(num_cpus={parallelism}, include_dashboard=False, log_to_driver=False)
tuner = tune.Tuner(
    tune.with_resources(train, {{"cpu": 1}}),
    param_space={{"x": tune.uniform(0, 1)}},
    tune_config=tune.TuneConfig(num_samples={trials}, max_concurrent_trials={parallelism}),
)
begun = time.monotonic()
results = tuner.fit()
print("seconds", time.monotonic() - begun, "trials", len(results))
"""
SYNE_TRAIN = """
import argparse, time
from syne_tune import Reporter
parser = argparse.ArgumentParser()
parser.add_argument("--x", type=float)
x = parser.parse_known_args()[0].x
time.sleep({seconds})
Reporter()(step=1, value=x)
"""
SYNE = """
import time
from syne_tune import StoppingCriterion, Tuner
from syne_tune.backend import LocalBackend
from syne_tune.config_space import uniform
from syne_tune.optimizer.baselines import RandomSearch

scheduler = RandomSearch({{"x": uniform(0, 1)}}, metrics=["value"])
tuner = Tuner(
    trial_backend=LocalBackend(entry_point="train.py"),
    scheduler=scheduler,
    stop_criterion=StoppingCriterion(max_num_trials_finished={trials}),
    n_workers={parallelism},
)
begun = time.monotonic()
tuner.run()
print("seconds", time.monotonic() - begun, "trials", {trials})
"""


def compare_with_others(lab: Lab, python: str) -> dict[str, float | None]:
    """Seconds a trial and slot of short trials: ours, Ray Tune's and Syne Tune's."""
    trials, parallelism = SHORT_TRIALS, SHORT_PARALLELISM
    fields = {"seconds": SHORT_SECONDS, "trials": trials, "parallelism": parallelism}
    found: dict[str, float | None] = {
        "hpo-ops": parallelism * lab.run("short").wall_seconds / trials
    }
    for name, module, files in (
        ("Ray Tune", "ray", {"run.py": RAY}),
        ("Syne Tune", "syne_tune", {"run.py": SYNE, "train.py": SYNE_TRAIN}),
    ):
        sources = {file: textwrap.dedent(text).format(**fields) for file, text in files.items()}
        seconds = _run_other(python, sources) if _has(python, module) else None
        found[name] = None if seconds is None else parallelism * seconds / trials
    print(f"{trials} trials of {SHORT_SECONDS} s, {parallelism} at once: seconds a trial and slot")
    for name, seconds in found.items():
        print(f"{name:24}{'not installed' if seconds is None else f'{seconds:10.2f}'}", flush=True)
    return found


def _has(python: str, module: str) -> bool:
    question = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({module!r}))"
    return subprocess.run([python, "-c", question], check=False).returncode == 0


def _run_other(python: str, files: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory(prefix="hpo-other-") as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        begun = time.monotonic()
        subprocess.run([python, "run.py"], cwd=folder, check=True, capture_output=True)
        return time.monotonic() - begun


if __name__ == "__main__":
    main()
