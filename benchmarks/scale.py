"""The rate of trivial trials as their number grows, in both flows and as bare mapped tasks.

``python -m benchmarks scale`` starts one stack and runs on it, for 100, 1,000 and 3,000 trials
(``--long``: 10,000 as well), one after the other: mapped tasks that do nothing, a study in rounds
and a rolling study whose trials report one value and end. For each it prints

- trials a minute in the first and in the last tenth of the trials, and over all of them;
- seconds of CPU a trial of the scheduler's main process and of the api-server, and the most
  memory that each had;
- seconds of CPU to build the DAG, as Airflow does whenever it parses the file.

``rounds / rolling`` and ``rolling / bare`` are ratios of trials a minute over all trials;
``last / first`` shows whether a run slows down.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.lab import Lab, machine, write_json
from hpo_ops.stack._processes import STACK_PART
from hpo_ops.stack._stack_parts import Part

TRAIN = """
echo '{"step": 1, "metrics": {"value": 0.5}}' >> "$HPO_DIR/reports.jsonl"
"""
BARE = """
from airflow.sdk import DAG, task

with DAG("bare_{trials}", schedule=None, max_active_tasks={parallelism} + 16) as dag:

    @task(max_active_tis_per_dagrun={parallelism})
    def trial(number):
        return number

    # A list in the file may be longer than max_map_length, which is for lists by XCom.
    trial.expand(number=list(range({trials})))
"""
KINDS = ("bare", "rounds", "rolling")
SAMPLE_SECONDS = 2.0


@dataclass
class Usage:
    """CPU seconds and peak memory of one part of the stack while a DAG ran."""

    cpu_seconds: float = 0.0
    peak_mib: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one DAG run of trivial trials showed."""

    kind: str
    trials: int
    wall_seconds: float
    cpu_seconds: float
    first_per_minute: float
    last_per_minute: float
    per_minute: float
    build_seconds: float
    usage: dict[str, Usage] = field(default_factory=dict)


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("--trials", type=int, nargs="+", default=[100, 1000, 3000])
    parser.add_argument("--long", action="store_true", help="10,000 trials as well")
    parser.add_argument("--parallelism", type=int, default=4)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    counts = [*options.trials, *([10_000] if options.long else [])]
    before = machine()
    lab = Lab()
    code = str(lab.add_code("code", train_sh=TRAIN))
    for trials in {*counts, WARM_UP}:
        _add_dags(lab, code, trials, options.parallelism)
    found: list[Figures] = []
    with lab:
        lab.wait_for_dags(*(f"{kind}_{trials}" for kind in KINDS for trials in (*counts, WARM_UP)))
        for kind in options.kinds:
            lab.run(f"{kind}_{WARM_UP}")
        _print_header(options.parallelism)
        for trials in counts:
            these = [_measure(lab, kind, trials) for kind in options.kinds]
            _print_ratios(these)
            found += these
    write_json(options.json, "scale", {"machine_before": before, "runs": list(map(asdict, found))})


WARM_UP = 8
"""Trials of the runs before the first that counts: imports and caches are filled by then."""


def _add_dags(lab: Lab, code: str, trials: int, parallelism: int) -> None:
    lab.add_dag(f"bare_{trials}", BARE.format(trials=trials, parallelism=parallelism))
    for flow in ("rounds", "rolling"):
        lab.add_study(_study(flow, code, trials, parallelism))


def _study(flow: str, code: str, trials: int, parallelism: int) -> dict[str, Any]:
    return {
        "name": f"{flow}_{trials}",
        "code": code,
        "command": "sh train.sh",
        "metric": {"name": "value", "direction": "maximize"},
        "space": {"x": {"float": [0, 1]}},
        "sampler": "random",
        "flow": flow,
        "trials": trials,
        "parallelism": parallelism,
    }


def _measure(lab: Lab, kind: str, trials: int) -> Figures:
    dag_id = f"{kind}_{trials}"
    with Watch(lab) as watch:
        cost = lab.run(dag_id)
    ends = sorted(
        datetime.fromisoformat(instance["end_date"].replace("Z", "+00:00")).timestamp()
        for instance in lab.session.airflow.task_instances(dag_id, cost.run_id)
        if instance["map_index"] >= 0 and instance["end_date"]
    )
    tenth = max(len(ends) // 10, 2)
    figures = Figures(
        kind=kind,
        trials=trials,
        wall_seconds=cost.wall_seconds,
        cpu_seconds=cost.cpu_seconds,
        first_per_minute=_rate(ends[:tenth]),
        last_per_minute=_rate(ends[-tenth:]),
        per_minute=60 * trials / cost.wall_seconds,
        build_seconds=_build_seconds(lab, kind, trials),
        usage=watch.usage,
    )
    _print_line(figures)
    return figures


def _rate(ends: list[float]) -> float:
    """Ends a minute between the first and the last of some moments."""
    return 60 * (len(ends) - 1) / max(ends[-1] - ends[0], 1e-3)


def _build_seconds(lab: Lab, kind: str, trials: int) -> float:
    """CPU time to build the DAG once, after the imports that every parse shares."""
    build = _builder(lab, kind, trials)
    build()
    began = time.process_time()
    build()
    return time.process_time() - began


def _builder(lab: Lab, kind: str, trials: int) -> Callable[[], object]:
    if kind == "bare":
        source = compile((lab.dags / f"bare_{trials}.py").read_text(), "bare", "exec")
        return lambda: exec(source, {})  # noqa: S102  our own text, from above
    from hpo_ops.airflow.dag_factory import build_dag
    from hpo_ops.config import load_study

    path = lab.dags / "studies" / f"{kind}_{trials}.yaml"
    return lambda: build_dag(load_study(path))


class Watch:
    """Notes CPU and memory of the scheduler's main process and of the api-server."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_often, daemon=True)
        self.usage: dict[str, Usage] = {part.value: Usage() for part in self._parts()}
        self._cpu_before: dict[str, float] = {}

    def __enter__(self) -> Watch:
        self._cpu_before = self._cpu()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for part, after in self._cpu().items():
            self.usage[part].cpu_seconds = after - self._cpu_before[part]

    def _parts(self) -> Mapping[Part, list[psutil.Process]]:
        """The processes of each part, without the workers that the scheduler has forked."""
        found: dict[Part, list[psutil.Process]] = {Part.SCHEDULER: [], Part.API_SERVER: []}
        for process in self._lab.stack.processes():
            with suppress(psutil.Error, OSError):
                part = process.environ().get(STACK_PART)
                if part in found:
                    found[Part(part)].append(process)
        found[Part.SCHEDULER].sort(key=psutil.Process.create_time)
        del found[Part.SCHEDULER][1:]
        return found

    def _cpu(self) -> dict[str, float]:
        return {
            part.value: sum(map(_cpu_seconds, processes))
            for part, processes in self._parts().items()
        }

    def _look_often(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            for part, processes in self._parts().items():
                usage = self.usage[part.value]
                usage.peak_mib = max(usage.peak_mib, sum(map(_memory_mib, processes)))


def _cpu_seconds(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def _memory_mib(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        return float(process.memory_info().rss) / 2**20
    return 0.0


def _print_header(parallelism: int) -> None:
    print(f"trivial trials, {parallelism} at once")
    print(
        f"{'':16}{'trials a minute':>26}{'':>12}{'CPU ms a trial':>18}{'peak MiB':>16}{'build':>9}"
    )
    print(
        f"{'':16}{'all':>8}{'first':>9}{'last':>9}{'last/first':>12}"
        f"{'scheduler':>10}{'api':>8}{'scheduler':>10}{'api':>6}{'CPU s':>9}",
        flush=True,
    )


def _print_line(found: Figures) -> None:
    scheduler, api = (found.usage[part.value] for part in (Part.SCHEDULER, Part.API_SERVER))
    print(
        f"{found.kind + ' ' + str(found.trials):16}"
        f"{found.per_minute:8.0f}{found.first_per_minute:9.0f}{found.last_per_minute:9.0f}"
        f"{found.last_per_minute / found.first_per_minute:12.2f}"
        f"{1000 * scheduler.cpu_seconds / found.trials:10.0f}"
        f"{1000 * api.cpu_seconds / found.trials:8.0f}"
        f"{scheduler.peak_mib:10.0f}{api.peak_mib:6.0f}{found.build_seconds:9.2f}"
        f"   load {machine()['load']}",
        flush=True,
    )


def _print_ratios(these: list[Figures]) -> None:
    rates = {figures.kind: figures.per_minute for figures in these}
    for one, other in (("rounds", "rolling"), ("rolling", "bare"), ("rounds", "bare")):
        if one in rates and other in rates:
            print(f"{one} / {other}: {rates[one] / rates[other]:.2f}", flush=True)


if __name__ == "__main__":
    main()
