"""What the end-to-end tests ask of a stack, the way its users do."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hpo_ops.checkpoints import Checkpoints
from hpo_ops.cli.airflow_api import AirflowApi
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import Address, Session
from hpo_ops.client import Progress
from hpo_ops.stack import Stack

TRAINING = Path(__file__).parent / "training"
QUIET = {
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    # So few that a small study goes past it.
    "AIRFLOW__CORE__MAX_MAP_LENGTH": "40",
}
"""For stacks of tests, several on one machine: they say when there is something new to read, and
what a stack does while it waits is taken from the others."""
PATIENCE = 400.0
"""Seconds to wait for what a quiet machine does in a few: only a test that fails takes them."""


def wait_for(
    question: Callable[[], Any], *, what: str, seconds: float = PATIENCE, every: float = 1.0
) -> Any:
    """Asks until the answer is true, in the end every so many seconds, and returns it."""
    give_up_at, pause = time.monotonic() + seconds, min(0.2, every)
    while not (answer := question()):
        if time.monotonic() > give_up_at:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(pause)
        pause = min(1.2 * pause, every)
    return answer


class Lab:
    """A stack with studies in it.

    Attributes:
        code: The training code of its studies, a copy: other stacks on this machine run their own.
    """

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.code = stack.dags.parent / "training"
        hidden = shutil.ignore_patterns("__pycache__")
        shutil.copytree(TRAINING, self.code, ignore=hidden, dirs_exist_ok=True)
        self.session = Session(Address(stack.url, stack.username, stack.password))

    @property
    def airflow(self) -> AirflowApi:
        return self.session.airflow

    def add_study(self, name: str, **changes: Any) -> str:
        """Drops a study file in; returns when its DAG has appeared."""
        self.write_study(name, **changes)
        self.wait_for_study(name)
        return name

    def wait_for_study(self, name: str) -> None:
        """Lets Airflow read the studies until it has the DAG of one."""
        give_up_at = time.monotonic() + PATIENCE
        while True:
            self._read_studies_now()
            try:
                self.airflow.wait_for_dag(name, seconds=5)
            except CommandError:
                if time.monotonic() > give_up_at:
                    raise
            else:
                return

    def write_study(self, name: str, **changes: Any) -> Path:
        """Drops a study file in."""
        data: dict[str, Any] = {
            "name": name,
            "code": str(self.code),
            "command": "python train.py",
            "metric": {"name": "accuracy", "direction": "maximize"},
            "space": {"x": {"float": [-1, 1]}, "pause": {"choices": [0.02]}},
            "sampler": "random",
            "scheduler": {"name": "asha", "min_steps": 1, "max_steps": 9, "eta": 3},
            "trials": 4,
            "parallelism": 2,
            "seed": 7,
            **changes,
        }
        path = self.stack.dags / "studies" / f"{name}.yaml"
        path.write_text(yaml.safe_dump(data), encoding="utf-8")
        return path

    def _read_studies_now(self) -> None:
        """Asks Airflow to read the studies again, which it does by itself now and then."""
        with contextlib.suppress(LookupError, CommandError):  # not read yet, or asked already
            token = self.airflow.request("GET", "/dags/hpo_study")["file_token"]
            self.airflow.request("PUT", f"/parseDagFile/{token}")

    def trigger(self, name: str) -> str:
        """Triggers a study through Airflow's REST API."""
        run_id: str = self.airflow.trigger(name, {})
        return run_id

    def trigger_by_command(self, name: str) -> str:
        """Triggers a study as CI would: ``airflow dags trigger``."""
        done = self.stack.airflow("dags", "trigger", name, "--output", "json")
        assert done.returncode == 0, done.stderr
        found = re.search(r"manual__[0-9T:.+-]+", done.stdout)
        assert found, done.stdout
        return found.group()

    def wait(self, name: str, run_id: str, *, seconds: float = 600) -> str:
        """Waits for the end of a run and returns its state."""

        def ended() -> str | None:
            state: str = self.airflow.run_state(name, run_id)
            return state if state in ("success", "failed") else None

        what = f"the end of {name} {run_id}"
        state: str = wait_for(ended, seconds=seconds, what=what)
        if state == "failed":
            for task in ("prepare", "publish"):
                print(task, "of", name, "says:", self.airflow.failure_of(name, run_id, task))
        return state

    def hpo(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs the command as a person would, against the stack."""
        address = {
            "HPO_URL": self.stack.url,
            "HPO_USERNAME": self.stack.username,
            "HPO_PASSWORD": self.stack.password,
        }
        return subprocess.run(
            [sys.executable, "-c", "from hpo_ops.cli import main; main()", *arguments],
            env={**self.stack.environment(), **address, "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def study(self, name: str, run_id: str) -> Progress:
        return self.session.study(name, run_id)

    def instances(self, name: str, run_id: str) -> list[dict[str, Any]]:
        return list(self.airflow.task_instances(name, run_id))

    def xcom(self, instance: dict[str, Any]) -> Any:
        """What a task instance handed on."""
        path = (
            f"/dags/{instance['dag_id']}/dagRuns/{instance['dag_run_id']}/taskInstances/"
            f"{instance['task_id']}/xcomEntries/return_value"
        )
        answer = self.airflow.request("GET", path, params={"map_index": instance["map_index"]})
        return answer["value"]

    def checkpoints(self, key: str) -> Checkpoints:
        """The study's checkpoints in the real store."""
        return Checkpoints(self.stack.object_store.store(), key, uri="s3://hpo")
