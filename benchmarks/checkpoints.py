"""Measures how much uploads of large checkpoints slow a training down.

``python -m benchmarks checkpoints`` trains three times the same: a matrix is multiplied for some
seconds, then a checkpoint is saved, again and again. Without a store checkpoints stay where they
are; with one (a real S3 service) the agent uploads them meanwhile; then the store hangs, from the
beginning to after the end. What counts is the time of the training itself, saving included.

The agent and its uploader are those of a pod, beside a training on this machine: a pod adds
nothing to what is measured here.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.lab import machine, write_json
from hpo_ops.checkpoints import Checkpoints, Credentials, open_store
from hpo_ops.protocol import Assignment
from hpo_ops.runners.local._process_runner import ProcessRunner
from hpo_ops.runners.segment_with_agent import run_segment
from tests.cluster.forward import Valve, forwarded
from tests.gateways import FakeGateway
from tests.s3 import BUCKET, running_s3

TRAIN = """
import time
import numpy
from hpo_ops.sdk import trial

content = numpy.random.default_rng(0).bytes(trial.params["bytes"])
trial.checkpointed(
    save=lambda folder: (folder / "weights").write_bytes(content), load=lambda folder: None
)
matrix = numpy.random.default_rng(1).random((400, 400))
for step in trial.steps():
    for _ in range(trial.params["products"]):
        matrix = matrix @ matrix
        matrix /= matrix.max()
    trial.report(step, value=0.5)
"""
UPLOAD_SECONDS = 120.0
"""For the last upload, after the training."""
PROBE = 200
"""Number of matrix products by which the machine's speed is measured."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """The time of a training.

    Attributes:
        seconds: Of the training, saving included.
        longest_step_seconds: Its longest step.
        uploads: Checkpoints that got to the store; those in between are not sent.
    """

    seconds: float
    longest_step_seconds: float
    uploads: int


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks checkpoints", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500, help="of a checkpoint")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between checkpoints")
    parser.add_argument("--steps", type=int, default=8, help="checkpoints")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    before = machine()
    logging.disable(logging.WARNING)  # a store that hangs is no news here
    with tempfile.TemporaryDirectory(prefix="hpo-bench-") as folder:
        figures = measure(Path(folder), options.megabytes << 20, options.every, options.steps)
    write_json(options.json, "checkpoints", {"machine_before": before, **vars(options), **figures})


def measure(folder: Path, size: int, every: float, steps: int) -> dict[str, object]:
    """The same training three times."""
    bench = Bench(folder, size, steps)
    bench.products = round(PROBE * every / bench.train(None, size=1, steps=3).longest_step_seconds)
    print(f"{steps} checkpoints of {size >> 20} MB, one every {every:g} s of training")
    print(f"{'':24}{'seconds':>10}{'longest step':>14}{'uploads':>9}", flush=True)
    found = {"without": bench.show("without a store", bench.train(None))}
    with reachable_store(folder) as (checkpoints, valve):
        found["with"] = bench.show(
            "with a store", bench.train(checkpoints, finish_seconds=UPLOAD_SECONDS)
        )
        valve.close()
        found["hung"] = bench.show("with a store that hangs", bench.train(checkpoints))
    ratios = {name: found[name].seconds / found["without"].seconds for name in ("with", "hung")}
    print(f"ratio with a store that hangs: {ratios['hung']:.2f}")
    print(f"ratio: {ratios['with']:.2f}", flush=True)
    return {**{name: asdict(each) for name, each in found.items()}, "ratios": ratios}


class Bench:
    """A training that can be repeated."""

    def __init__(self, folder: Path, size: int, steps: int) -> None:
        self._folder, self._size, self._steps = folder, size, steps
        self._runs = 0
        self.products = PROBE
        (folder / "code").mkdir()
        (folder / "code" / "train.py").write_text(TRAIN, encoding="utf-8")

    def train(
        self,
        checkpoints: Checkpoints | None,
        *,
        size: int = 0,
        steps: int = 0,
        finish_seconds: float = 1.0,
    ) -> Training:
        """Trains once, as a worker does."""
        self._runs += 1
        gateway = FakeGateway()
        run_segment(
            Assignment(
                study="bench",
                trial=self._runs,
                segment=f"segment-{self._runs}",
                params={"bytes": size or self._size, "products": self.products},
                metrics=["value"],
                until_step=steps or self._steps,
            ),
            root=self._folder / "hpo",
            runner=ProcessRunner("python train.py", self._folder / "code", on_line=print),
            gateway=gateway,
            checkpoints=checkpoints,
            finish_seconds=finish_seconds,
        )
        seconds = [report.seconds for report in gateway.reports]
        return Training(
            seconds=sum(seconds),
            longest_step_seconds=max(seconds[1:]),
            uploads=len(gateway.checkpoints),
        )

    def show(self, name: str, training: Training) -> Training:
        """Prints a line of the table."""
        figures = (
            f"{training.seconds:10.1f}{training.longest_step_seconds:14.1f}{training.uploads:9}"
        )
        print(f"{name:24}{figures}   load {machine()['load']}", flush=True)
        return training


@contextmanager
def reachable_store(folder: Path) -> Iterator[tuple[Checkpoints, Valve]]:
    """A real S3 service, behind a valve."""
    valve = Valve()
    (folder / "s3").mkdir()
    with (
        running_s3(folder / "s3") as direct,
        forwarded(
            urlsplit(direct.endpoint or "").port or 0, address="127.0.0.1", listen=0, valve=valve
        ) as port,
    ):
        credentials: Credentials = replace(direct, endpoint=f"http://127.0.0.1:{port}")
        store = open_store(f"s3://{BUCKET}", credentials)
        yield Checkpoints(store, "bench", uri=f"s3://{BUCKET}"), valve


if __name__ == "__main__":
    main()
