"""The time of one trial's folds on an increasing number of slots.

``python -m benchmarks folds`` trains one trial in 11 folds of equal length, which sleep, on 1 to
11 slots. With P slots that takes ceil(11 / P) times as long as one fold. Every training notes
when it begins and ends; what counts is the time from the first beginning to the last end.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from benchmarks.flows import TRAIN, read_times
from benchmarks.lab import Lab, machine, write_json

SLOTS = (1, 2, 3, 4, 6, 11)


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks folds", description=__doc__)
    parser.add_argument("--folds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=15.0, help="that a fold takes")
    parser.add_argument("--slots", type=int, nargs="+", default=SLOTS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    before = machine()
    lab = Lab(tasks=max(options.slots) + 1)
    codes = {
        slots: _add_study(lab, slots, options.folds, options.seconds) for slots in options.slots
    }
    with lab:
        lab.wait_for_dags(*map(_name, options.slots))
        lab.session.gateway.set_pool("local", max(options.slots))
        print(f"{options.folds} folds of {options.seconds:g} s each")
        print(f"{'slots':>6}{'ideal':>10}{'seen':>10}{'of ideal':>10}", flush=True)
        seen = {}
        for slots, code in codes.items():
            lab.run(_name(slots))
            ideal = math.ceil(options.folds / slots) * options.seconds
            times = read_times(code)
            seen[slots] = max(end for _, end in times) - min(begin for begin, _ in times)
            ratio = seen[slots] / ideal
            print(f"{slots:6}{ideal:8.1f} s{seen[slots]:8.1f} s{ratio:10.2f}", flush=True)
    write_json(options.json, "folds", {"machine_before": before, **vars(options), "seen": seen})


def _name(slots: int) -> str:
    return f"slots_{slots}"


def _add_study(lab: Lab, slots: int, folds: int, seconds: float) -> Path:
    lengths = json.dumps([seconds] * folds)
    code = lab.add_code(f"code_{slots}", train_py=TRAIN, lengths_json=lengths)
    study: dict[str, Any] = {
        "name": _name(slots),
        "code": str(code),
        "command": "python train.py",
        "metric": {"name": "value", "direction": "maximize"},
        "space": {"x": {"float": [0, 1]}},
        "sampler": "random",
        "flow": "rolling",
        "cache": False,
        "trials": 1,
        "folds": {"count": folds, "prune": None},
        "parallelism": slots,
    }
    lab.add_study(study)
    return code


if __name__ == "__main__":
    main()
