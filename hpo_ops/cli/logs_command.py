"""``hpo logs``: merges the logs of a study's trials, with the trial's number before each line."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from hpo_ops.checkpoints import STORE_ERRORS, LogRef, Logs, open_store
from hpo_ops.cli.airflow_api import AirflowApi
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import Session
from hpo_ops.cli.follow_study import ENDED
from hpo_ops.cli.terminal import visible
from hpo_ops.client import Progress
from hpo_ops.config.runner_registry import find_runner

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green")
_OVER = {"success", "failed", "skipped", "upstream_failed", "removed"}
"""Final states of a task instance, after which no lines are added to the instance's log."""
POLL_SECONDS = 1.0


class Source(Protocol):
    """A source of log lines that returns each line once."""

    def new_lines(self, *, is_last: bool) -> Iterator[tuple[int, str]]:
        """Yields the log lines since the previous call as pairs of trial number and text.

        Args:
            is_last: Whether this is the last call, in which case a line whose end has not been
                written is yielded too.
        """
        ...


class TaskLogs:
    """The log lines of a DAG run's trial tasks, which include the output of the trainings."""

    def __init__(self, airflow: AirflowApi, progress: Progress, trial: int | None) -> None:
        self._airflow = airflow
        self._dag_id, self._run_id = progress.dag_id, progress.run_id
        self._trial = trial
        self._seen: dict[tuple[str, int, int], Counter[tuple[str, str]]] = {}
        self._over: set[tuple[str, int, int]] = set()

    def new_lines(self, *, is_last: bool) -> Iterator[tuple[int, str]]:
        found: list[tuple[str, int, str]] = []
        for instance in self._airflow.task_instances(self._dag_id, self._run_id):
            number = _trial_number(instance)
            if number is None or (self._trial is not None and number != self._trial):
                continue
            last = instance["try_number"] or 0
            for attempt in range(1, last + 1):
                key = (instance["task_id"], instance["map_index"], attempt)
                if key in self._over and not is_last:
                    continue
                found += [(at, number, text) for at, text in self._new_of(key, instance)]
                if attempt < last or instance["state"] in _OVER:
                    self._over.add(key)
        for _, number, text in sorted(found, key=lambda item: item[0]):
            yield number, text

    def _new_of(
        self, key: tuple[str, int, int], instance: dict[str, Any]
    ) -> list[tuple[str, str]]:
        try:
            lines = self._airflow.log_lines(instance, attempt=key[2])
        except LookupError:
            return []  # no log has been written yet
        # Airflow merges the logs of worker and triggerer by time, so a new line may appear
        # between two old lines. Therefore lines are counted, and not skipped by position.
        seen, now = self._seen.get(key, Counter()), Counter[tuple[str, str]]()
        fresh = []
        for line in lines:
            if line.get("timestamp"):
                item = (str(line["timestamp"]), str(line["event"]))
                now[item] += 1
                if now[item] > seen[item]:
                    fresh.append(item)
        self._seen[key] = now | seen
        return fresh


class StoredLogs:
    """The output of one container in each of the trials' pods, read from the object store."""

    def __init__(self, logs: Logs, container: str, trial: int | None, *, folds: int = 1) -> None:
        self._logs = logs
        self._container = container
        self._trial = trial
        self._folds = folds
        self._read: dict[LogRef, int] = {}
        self._rest: dict[LogRef, bytes] = {}

    def new_lines(self, *, is_last: bool) -> Iterator[tuple[int, str]]:
        wanted = self._trial if self._folds == 1 else None
        for ref, count in self._logs.parts(wanted).items():
            start = self._read.get(ref, 0)
            if ref.container != self._container or start >= count:
                continue
            if self._trial not in (None, ref.trial // self._folds):
                continue
            new = list(self._logs.read(ref, start=start))
            self._read[ref] = start + len(new)
            *lines, rest = b"".join([self._rest.pop(ref, b""), *new]).split(b"\n")
            if rest:  # a part may end in the middle of a line
                self._rest[ref] = rest
            for line in lines:
                yield ref.trial // self._folds, line.decode(errors="replace")
        if is_last:
            for ref, rest in self._rest.items():
                yield ref.trial // self._folds, rest.decode(errors="replace")
            self._rest.clear()


def show_logs(
    session: Session,
    console: Console,
    progress: Progress,
    *,
    trial: int | None,
    container: str | None,
    is_followed: bool,
) -> None:
    """Prints the logs of a study's trials.

    Args:
        session: The connections to Airflow and the gateway.
        console: The console to print to.
        progress: The study, as the gateway returned it.
        trial: The number of the only trial whose logs are printed; None for all trials.
        container: The container whose stored output is printed; None for the logs of the tasks.
        is_followed: Whether to print new lines until the study's DAG run has ended.

    Raises:
        CommandError: The trials have no such container, or the object store cannot be read.
    """
    source = _open(session, progress, trial, container)
    while True:
        state = session.airflow.run_state(progress.dag_id, progress.run_id)
        is_last = state in ENDED or not is_followed
        try:
            lines = list(source.new_lines(is_last=is_last))
        except STORE_ERRORS as error:
            raise CommandError(
                f"the object store {progress.store} cannot be read: {error}"
            ) from error
        for number, text in lines:
            prefix = Text(f"[trial {number}] ", style=_COLOURS[number % len(_COLOURS)])
            console.print(prefix + Text(visible(text)), soft_wrap=True)
        if is_last:
            return
        time.sleep(POLL_SECONDS)


def _open(
    session: Session, progress: Progress, trial: int | None, container: str | None
) -> Source:
    if container is None:
        return TaskLogs(session.airflow, progress, trial)
    known = find_runner(progress.runner).log_containers
    if not known:
        raise CommandError(
            f"--container is for trials in containers, but those of {progress.name} have one log "
            "each: omit --container"
        )
    if container not in known:
        raise CommandError(
            f"--container is {container}, but trials of {progress.name} have {', '.join(known)}"
        )
    try:
        store = open_store(progress.store, session.address.store)
    except ValueError as error:
        raise CommandError(str(error)) from error
    return StoredLogs(Logs(store, progress.key), container, trial, folds=progress.folds or 1)


def _trial_number(instance: dict[str, Any]) -> int | None:
    """Returns the number of the trial that a task instance runs.

    The number is the start of the instance's label in Airflow's grid. Returns None if the task
    does not run a trial, or the instance has no label yet.
    """
    label = instance.get("rendered_map_index") or ""
    number = label.partition(":")[0].partition(" fold ")[0]
    is_trial = instance["task_id"].rpartition(".")[2] == "trial"
    return int(number) if is_trial and number.isdecimal() else None
