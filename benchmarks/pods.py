"""The cost of a trial's pod, compared with a bare pod: seconds to training, pods a minute.

``python -m benchmarks pods`` runs on the tests' own Kubernetes (root on Debian), or on that of
KUBECONFIG. One after the other, with as many at once: bare pods of one container, created by this
process, and the trials of a rolling study. Both run the same image, whose first command says when
it began.

- start: from the decision to that moment. A bare pod is decided when it is created; a trial when
  the ledger has its segment, before its task makes the pod. A trial's pod restores first.
- pods a minute: over the time from the first decision to the last end.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, select

from benchmarks.lab import machine, write_json
from hpo_ops.ledger._schema import segments
from tests.cluster.availability import ClusterUnavailableError
from tests.cluster.cluster import Cluster, running_cluster
from tests.k8s.lab import PodLab, pod_lab

BEGIN = "/bin/date +%s.%N"  # by its path: the shell that starts trainings has its own
TRAIN = f"""{BEGIN}
echo '{{"step": 1, "metrics": {{"accuracy": 0.5}}}}' >> "$HPO_DIR/reports.jsonl"
"""
POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Pods:
    """The times of several pods.

    Attributes:
        start_seconds: From the decision to the first command, each.
        pods_a_minute: As many as ended, over the time that all took.
    """

    start_seconds: Sequence[float]
    pods_a_minute: float

    @property
    def median(self) -> float:
        return statistics.median(self.start_seconds)


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks pods", description=__doc__)
    parser.add_argument("--pods", type=int, default=12)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    before = machine()
    try:
        with running_cluster(print) as cluster:
            found = measure(cluster, options.pods, options.parallelism)
    except ClusterUnavailableError as error:
        parser.exit(1, f"no Kubernetes: {error}\n")
    figures = {name: asdict(pods) for name, pods in found.items()}
    write_json(options.json, "pods", {"machine_before": before, **vars(options), **figures})


def measure(cluster: Cluster, count: int, parallelism: int) -> dict[str, Pods]:
    """Bare pods, then trials."""
    print("starting a stack ...", flush=True)
    with cluster.namespace("bench") as namespace, pod_lab(cluster, namespace) as lab:
        study = add_study(lab, count, parallelism)
        run_bare(lab, 2, parallelism)  # to warm up
        print(
            f"{count} pods, {parallelism} at once{'median s':>15}{'worst s':>10}{'a minute':>10}"
        )
        found = {"bare": run_bare(lab, count, parallelism)}
        show("bare pod", found["bare"])
        found["ours"] = run_trials(lab, study)
        show("trial of a study", found["ours"])
    bare, ours = found["bare"], found["ours"]
    print(f"start ratio: {ours.median / bare.median:.2f}")
    print(f"pods a minute ratio: {ours.pods_a_minute / bare.pods_a_minute:.2f}", flush=True)
    return found


def show(name: str, pods: Pods) -> None:
    """Prints a line of the table."""
    worst = max(pods.start_seconds)
    figures = f"{pods.median:10.2f}{worst:10.2f}{pods.pods_a_minute:10.1f}"
    print(f"{name:24}{figures}   load {machine()['load']}", flush=True)


def run_bare(lab: PodLab, count: int, parallelism: int) -> Pods:
    """Pods of one container, started when one before them has ended."""
    decided: dict[str, float] = {}
    starts: list[float] = []
    waiting = [f"bare-{time.monotonic_ns()}-{number}" for number in range(count)]
    begun = time.time()
    while waiting or len(starts) < len(decided):
        while waiting and len(decided) - len(starts) < parallelism:
            name = waiting.pop(0)
            decided[name] = time.time()
            create_bare(lab, name)
        for name in ended_bare(lab, decided):
            log = lab.api.read_namespaced_pod_log(name, lab.namespace, _preload_content=False)
            starts.append(float(log.data) - decided[name])
            lab.api.delete_namespaced_pod(name, lab.namespace, grace_period_seconds=0)
        time.sleep(POLL_SECONDS)
    seconds = time.time() - begun
    return Pods(start_seconds=starts, pods_a_minute=60 * count / seconds)


def create_bare(lab: PodLab, name: str) -> None:
    """A pod that says when it began."""
    image = lab.cluster.images.python
    container = {"name": "base", "image": image, "command": ["sh", "-c", BEGIN]}
    pod: dict[str, Any] = {
        "metadata": {"name": name, "labels": {"bench": "bare"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    lab.api.create_namespaced_pod(lab.namespace, pod)


def ended_bare(lab: PodLab, decided: dict[str, float]) -> list[str]:
    """Those that have ended and are still there."""
    found = lab.api.list_namespaced_pod(lab.namespace, label_selector="bench=bare").items
    failed = [pod.metadata.name for pod in found if pod.status.phase == "Failed"]
    if failed:
        raise RuntimeError(f"pods failed: {', '.join(failed)}")
    return [
        pod.metadata.name
        for pod in found
        if pod.status.phase == "Succeeded" and pod.metadata.name in decided
    ]


def add_study(lab: PodLab, count: int, parallelism: int) -> str:
    """A study whose trainings say when they began, report a value and end."""
    return lab.add_pod_study(
        "bench_pods",
        command="sh train.sh",
        code=str(lab.training_with("train.sh", TRAIN)),
        flow="rolling",
        trials=count,
        parallelism=parallelism,
        space={"x": {"float": [0, 1]}},
        scheduler={"name": "default", "max_steps": 1},
    )


def run_trials(lab: PodLab, name: str) -> Pods:
    """The trials of a study, one pod each."""
    study = lab.ended(name, lab.trigger(name))
    with create_engine(lab.stack.ledger_url).connect() as ledger:
        rows = ledger.execute(select(segments).where(segments.c.study_id == study.id)).all()
    starts = [
        float(lab.training_log(study, row.trial).split()[0]) - row.at.timestamp() for row in rows
    ]
    seconds = max(row.ended_at for row in rows) - min(row.at for row in rows)
    return Pods(start_seconds=starts, pods_a_minute=60 * len(rows) / seconds.total_seconds())


if __name__ == "__main__":
    main()
