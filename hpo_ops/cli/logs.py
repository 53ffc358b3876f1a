"""The logs of a study's trials, merged, each line with its trial in front."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from hpo_ops.cli.follow import ENDED
from hpo_ops.cli.session import Session

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green")
POLL_SECONDS = 1.0


class TrialLogs:
    """What the trials of one DAG run have logged; each line is handed out once."""

    def __init__(self, session: Session, dag_id: str, run_id: str, trial: int | None) -> None:
        self._airflow = session.airflow
        self._dag_id = dag_id
        self._run_id = run_id
        self._trial = trial
        self._seen: dict[tuple[str, int, int], int] = {}

    def new_lines(self) -> Iterator[tuple[int, str]]:
        """Lines since the last call, oldest first, with the number of their trial."""
        found: list[tuple[str, int, str]] = []
        for instance in self._airflow.task_instances(self._dag_id, self._run_id):
            number = _trial_number(instance)
            if number is None or (self._trial is not None and number != self._trial):
                continue
            for attempt in range(1, (instance["try_number"] or 0) + 1):
                found += self._new_of(instance, attempt, number)
        for _, number, text in sorted(found, key=lambda item: item[0]):
            yield number, text

    def _new_of(
        self, instance: dict[str, Any], attempt: int, number: int
    ) -> list[tuple[str, int, str]]:
        key = (instance["task_id"], instance["map_index"], attempt)
        try:
            lines = self._airflow.log_lines(instance, attempt=attempt)
        except LookupError:
            return []  # not written yet
        lines = [line for line in lines if line.get("timestamp")]
        skip = self._seen.get(key, 0)
        self._seen[key] = len(lines)
        return [(str(line["timestamp"]), number, str(line["event"])) for line in lines[skip:]]


def show_logs(
    session: Session,
    console: Console,
    *,
    dag_id: str,
    run_id: str,
    trial: int | None,
    is_followed: bool,
) -> None:
    """Prints the logs, and goes on until the run ends where they are followed."""
    logs = TrialLogs(session, dag_id, run_id, trial)
    while True:
        has_ended = session.airflow.run_state(dag_id, run_id) in ENDED
        for number, text in logs.new_lines():
            prefix = Text(f"[trial {number}] ", style=_COLOURS[number % len(_COLOURS)])
            console.print(prefix + Text(text), soft_wrap=True)
        if has_ended or not is_followed:
            return
        time.sleep(POLL_SECONDS)


def _trial_number(instance: dict[str, Any]) -> int | None:
    """The trial of a task instance: its label in the grid starts with it."""
    label = instance.get("rendered_map_index") or ""
    number = label.partition(":")[0]
    is_trial = instance["task_id"].rpartition(".")[2] == "trial"
    return int(number) if is_trial and number.isdecimal() else None
