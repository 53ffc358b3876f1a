"""Utilization of a study's slots by uneven trials, in both flows.

``python -m benchmarks flows`` runs trials whose lengths follow from their numbers, first in rounds
and then rolling, on one stack. Every training notes when it begins and ends, so that what counts
is time in training and not in the preparation of it:

- makespan: from the first beginning to the last end;
- utilisation: seconds trained / (slots x makespan);
- while there is work: the same up to the last beginning. Until then a trial waits that could take
  a free slot; afterwards slots stay empty because nothing is left, however good the flow.

Beside them the ideal: list scheduling of the same lengths in the same order, which takes no time
between two trials. A rolling study should be 95 % utilised while there is work.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.lab import Lab, machine, write_json

TRAIN = """
import json, pathlib, time
from hpo_ops.sdk import trial

lengths = json.loads(pathlib.Path("lengths.json").read_text())
begun = time.time()
time.sleep(lengths[trial.number])
trial.report(1, trial.params["x"])
with pathlib.Path("times.jsonl").open("a") as file:
    file.write(json.dumps([trial.number, begun, time.time()]) + "\\n")
"""
GOLDEN = 0.6180339887498949
Span = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Use:
    """The utilization of a study's slots."""

    makespan_seconds: float
    utilisation: float
    utilisation_with_work: float
    longest_gap_seconds: float


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks flows", description=__doc__)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--shortest", type=float, default=2.0, help="seconds")
    parser.add_argument("--longest", type=float, default=20.0, help="seconds")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="8 trials of 1 to 5 seconds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.quick:
        options.trials, options.shortest, options.longest = 8, 1.0, 5.0
    lengths = uneven(options.trials, options.shortest, options.longest)
    ideal = use_of(schedule(lengths, options.parallelism), options.parallelism)
    before = machine()
    lab = Lab()
    codes = {flow: _add_study(lab, flow, lengths, options.parallelism) for flow in FLOWS}
    with lab:
        lab.wait_for_dags(*FLOWS)
        found = {"ideal": ideal}
        show_header(lengths, options.parallelism)
        show("ideal", ideal, ideal, 0.0)
        for flow, code in codes.items():
            cost = lab.run(flow)
            found[flow] = use_of(read_times(code), options.parallelism)
            show(flow, found[flow], ideal, cost.wall_seconds)
    uses = {name: asdict(use) for name, use in found.items()}
    write_json(options.json, "flows", {"machine_before": before, **vars(options), "uses": uses})


FLOWS = ("rounds", "rolling")


def _add_study(lab: Lab, flow: str, lengths: Sequence[float], parallelism: int) -> Path:
    code = lab.add_code(f"code_{flow}", train_py=TRAIN, lengths_json=json.dumps(lengths))
    study: dict[str, Any] = {
        "name": flow,
        "code": str(code),
        "command": "python train.py",
        "metric": {"name": "value", "direction": "maximize"},
        "space": {"x": {"float": [0, 1]}},
        "sampler": "random",
        "flow": flow,
        "trials": len(lengths),
        "parallelism": parallelism,
    }
    lab.add_study(study)
    return code


def uneven(count: int, shortest: float, longest: float) -> list[float]:
    """Lengths between two bounds, well mixed, always the same.

    >>> uneven(3, 2, 20)
    [2.0, 13.12, 6.25]
    """
    return [
        round(shortest + (longest - shortest) * (number * GOLDEN % 1), 2)
        for number in range(count)
    ]


def schedule(lengths: Sequence[float], slots: int) -> list[Span]:
    """List scheduling: each trial starts on the slot that is free first.

    >>> schedule([3, 1, 1], 2)
    [(0.0, 3.0), (0.0, 1.0), (1.0, 2.0)]
    """
    free = [0.0] * slots
    spans = []
    for length in lengths:
        begin = heapq.heappop(free)
        spans.append((begin, begin + length))
        heapq.heappush(free, begin + length)
    return spans


def use_of(spans: Sequence[Span], slots: int) -> Use:
    """How slots were used by trainings that began and ended like this.

    >>> use_of([(0.0, 3.0), (0.0, 1.0), (1.0, 2.0)], 2).utilisation_with_work
    1.0
    """
    begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
    last = max(span[0] for span in spans)
    busy = sum(span[1] - span[0] for span in spans)
    with_work = sum(min(span[1], last) - span[0] for span in spans)
    is_short = last - begin <= 0  # all began at once
    return Use(
        makespan_seconds=end - begin,
        utilisation=busy / (slots * (end - begin)),
        utilisation_with_work=1.0 if is_short else with_work / (slots * (last - begin)),
        longest_gap_seconds=_longest_gap(spans, slots),
    )


def _longest_gap(spans: Sequence[Span], slots: int) -> float:
    """The longest time that a slot stayed empty between two trainings."""
    begins = sorted(span[0] for span in spans)[slots:]
    ends = sorted(span[1] for span in spans)
    return max((begin - end for begin, end in zip(begins, ends, strict=False)), default=0.0)


def read_times(code: Path) -> list[Span]:
    """When the trainings of a study began and ended."""
    lines = (code / "times.jsonl").read_text(encoding="utf-8").splitlines()
    return [(begun, ended) for _, begun, ended in map(json.loads, lines)]


def show_header(lengths: Sequence[float], slots: int) -> None:
    """Prints what is compared."""
    print(
        f"{len(lengths)} trials of {min(lengths):g} to {max(lengths):g} s "
        f"({sum(lengths):.0f} s in all), {slots} at once"
    )
    print(
        f"{'':10}{'makespan':>10}{'of ideal':>10}{'utilised':>10}{'with work':>11}"
        f"{'longest gap':>13}{'DAG run':>9}",
        flush=True,
    )


def show(name: str, use: Use, ideal: Use, run_seconds: float) -> None:
    """Prints a line."""
    of_ideal = use.makespan_seconds / ideal.makespan_seconds
    print(
        f"{name:10}{use.makespan_seconds:8.1f} s{of_ideal:10.2f}"
        f"{use.utilisation:10.1%}{use.utilisation_with_work:11.1%}"
        f"{use.longest_gap_seconds:11.2f} s{run_seconds:7.1f} s   load {machine()['load']}",
        flush=True,
    )


if __name__ == "__main__":
    main()
