"""A temporary stack for a benchmark, and the cost of DAG runs on it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import yaml

from hpo_ops.cli.connection import Address, Session
from hpo_ops.stack import Stack

PROJECT = Path(__file__).resolve().parents[1]
POLL_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of a DAG run.

    Attributes:
        run_id: The DAG run.
        wall_seconds: From the start of the run to its end, by Airflow's own record.
        cpu_seconds: CPU time of every process of the stack, those that ended included.
    """

    run_id: str
    wall_seconds: float
    cpu_seconds: float


class Lab:
    """A stack in a temporary folder, with no DAGs but those that are added; stopped at the end.

    DAGs that are added before it is entered are there at once.

    Args:
        tasks: How many tasks may run at once; by the number of cores when None.
        environment: More variables for Airflow's parts.
    """

    def __init__(
        self, tasks: int | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="hpo-bench-"))
        self.dags = self.root / "dags"
        (self.dags / "studies").mkdir(parents=True)
        shutil.copy(PROJECT / "dags" / "hpo_studies.py", self.dags)
        self._runtime = self.root / "runtime"
        self.stack = Stack(
            self.root / "stack",
            project=PROJECT,
            dags=self.dags,
            port=0,
            s3_port=0,
            extra_environment={
                "XDG_RUNTIME_DIR": str(self._runtime),
                **({"AIRFLOW__CORE__PARALLELISM": str(tasks)} if tasks else {}),
                **(environment or {}),
            },
        )

    def __enter__(self) -> Lab:
        print("starting a stack ...", flush=True)
        self.stack.__enter__()  # which stops what it has started when it fails
        stack = self.stack
        self.session = Session(Address(stack.url, stack.username, stack.password))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stack.stop()
        for process in self._nurseries():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if error is None:
            shutil.rmtree(self.root, ignore_errors=True)
        else:
            print(f"the stack's folder stays: {self.root}", flush=True)

    def add_code(self, name: str, **files: str) -> Path:
        """A folder of training code; a file ``train_py`` is called ``train.py``."""
        folder = self.root / name
        folder.mkdir()
        for file, text in files.items():
            (folder / file.replace("_", ".")).write_text(text, encoding="utf-8")
        return folder

    def add_dag(self, name: str, source: str) -> None:
        """Puts a DAG file in the DAGs folder."""
        (self.dags / f"{name}.py").write_text(source, encoding="utf-8")

    def add_study(self, study: Mapping[str, Any]) -> None:
        """Puts a study file in the DAGs folder."""
        path = self.dags / "studies" / f"{study['name']}.yaml"
        path.write_text(yaml.safe_dump(dict(study), sort_keys=False), encoding="utf-8")

    def wait_for_dags(self, *names: str) -> None:
        """Waits until Airflow has seen new DAGs."""
        for name in names:
            self.session.airflow.wait_for_dag(name, seconds=180)

    def run(self, dag_id: str, *, conf: Mapping[str, Any] | None = None) -> Cost:
        """Triggers a DAG and waits for its end.

        Raises:
            RuntimeError: The run failed.
        """
        airflow = self.session.airflow
        before = self.cpu_seconds()
        run_id = airflow.trigger(dag_id, dict(conf or {}))
        path = f"/dags/{dag_id}/dagRuns/{run_id}"
        while (run := airflow.request("GET", path))["state"] not in ("success", "failed"):
            time.sleep(POLL_SECONDS)
        cpu_seconds = self.cpu_seconds() - before
        if run["state"] == "failed":
            raise RuntimeError(f"{dag_id} {run_id} failed")
        wall_seconds = _seconds_between(run["start_date"], run["end_date"])
        return Cost(run_id=run_id, wall_seconds=wall_seconds, cpu_seconds=cpu_seconds)

    def cpu_seconds(self) -> float:
        """CPU time that the stack has used since it was started.

        What has ended is in its parent's account, since every parent here waits for its children.
        """
        total = 0.0
        for process in [*self.stack.processes(), *self._nurseries()]:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system + times.children_user + times.children_system
        return total

    def _nurseries(self) -> list[psutil.Process]:
        """The processes that trainings are forked from; they belong to no part of the stack."""
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if any(str(self._runtime) in word for word in process.info["cmdline"] or ())
        ]


def _seconds_between(start: str, end: str) -> float:
    first, last = (datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (start, end))
    return (last - first).total_seconds()


def machine() -> dict[str, Any]:
    """The conditions of a measurement: the number of cores and their load."""
    return {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2)}


def write_json(path: Path | None, name: str, figures: Mapping[str, Any]) -> None:
    """Writes the figures of a benchmark to a file, if one is given."""
    if path is not None:
        content = {"benchmark": name, "machine": machine(), **figures}
        path.write_text(json.dumps(content, indent=2, default=_plain) + "\n", encoding="utf-8")


def _plain(value: object) -> object:
    return asdict(value) if isinstance(value, Cost) else str(value)
