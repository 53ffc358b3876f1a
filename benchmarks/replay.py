"""Compares live studies with their replays: the error of the simulator.

``python -m benchmarks replay`` runs a study with ASHA in rounds and one rolling, records each as
traces, and replays these under the study's own policy on as many slots. Steps sleep for a second
or two, so that trials take as long as their parameters say. ``ratio`` is the replay's makespan
beside the live one's, from the first beginning to the last end.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from benchmarks.lab import Lab, machine, write_json
from hpo_ops.cli.commands import app
from hpo_ops.cli.trace_sources import record
from hpo_ops.simulator import save_traces

TRAIN = """
import time
from hpo_ops.sdk import trial

for step in trial.steps(9):
    time.sleep(trial.params["pause"])
    trial.report(step, accuracy=1 - abs(trial.params["x"]) / (1 + step))
"""
FLOWS = ("rounds", "rolling")


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks replay", description=__doc__)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    before = machine()
    lab = Lab()
    code = lab.add_code("code", train_py=TRAIN)
    for flow in FLOWS:
        lab.add_study(_study(flow, str(code), options.trials, options.parallelism))
    with lab:
        lab.wait_for_dags(*FLOWS)
        print(f"{options.trials} trials with ASHA, {options.parallelism} at once")
        print(f"{'':10}{'live':>10}{'replay':>10}{'ratio':>8}", flush=True)
        found = {}
        for flow in FLOWS:
            live, again = makespans(lab, flow)
            found[flow] = {"live_seconds": live, "replay_seconds": again, "ratio": again / live}
            print(f"{flow:10}{live:8.1f} s{again:8.1f} s{again / live:8.2f}", flush=True)
    write_json(options.json, "replay", {"machine_before": before, **vars(options), **found})


def makespans(lab: Lab, name: str) -> tuple[float, float]:
    """The seconds of a study and of its replay."""
    run_id = lab.run(name).run_id
    with tempfile.TemporaryDirectory(prefix="hpo-replay-") as folder:
        path = Path(folder) / "live.jsonl.gz"
        save_traces(record(name, run_id, lab.session), path)
        asked = CliRunner().invoke(app, ["whatif", str(path), "--json"])
    if asked.exit_code:
        raise RuntimeError(asked.output)
    told = json.loads(asked.stdout)
    live, replay = told["happened"], told["replays"][0]
    return float(live["makespan_seconds"]), float(replay["makespan_seconds"])


def _study(flow: str, code: str, trials: int, parallelism: int) -> dict[str, Any]:
    return {
        "name": flow,
        "code": code,
        "command": "python train.py",
        "metric": {"name": "accuracy", "direction": "maximize"},
        "space": {"x": {"float": [-1, 1]}, "pause": {"choices": [1.0, 2.0]}},
        "sampler": "random",
        "scheduler": {"name": "asha", "min_steps": 1, "max_steps": 9, "eta": 3},
        "flow": flow,
        "trials": trials,
        "parallelism": parallelism,
        "cache": False,
    }


if __name__ == "__main__":
    main()
