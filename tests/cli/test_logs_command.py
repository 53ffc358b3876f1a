"""The logs of trials: merged, each line once, from Airflow or from the store."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import hpo_ops.cli.logs_command
from hpo_ops.checkpoints import LogRef, Logs, open_store
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import Address
from hpo_ops.cli.logs_command import (
    StoredLogs,
    TaskLogs,
    _trial_number,
    show_logs,
)
from tests.cli.test_study_tables import progress


def line(second: int, text: str) -> dict[str, Any]:
    return {"timestamp": f"2026-01-02T03:04:{second:02}Z", "event": text}


class FakeAirflow:
    """Two trials; a test writes their logs and says how the run stands."""

    def __init__(self) -> None:
        self.logs: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self.states = ["running"]
        self.tries = {0: 1, 1: 1}
        self.asked: list[tuple[int, int]] = []
        self.is_over: set[int] = set()

    def task_instances(self, dag_id: str, run_id: str) -> Iterator[dict[str, Any]]:
        yield {"task_id": "prepare", "map_index": -1, "try_number": 1, "state": "success"}
        for index, tries in self.tries.items():
            yield {
                "task_id": "round_00.trial",
                "map_index": index,
                "rendered_map_index": f"{index + 2}: lr=0.1",
                "try_number": tries,
                "state": "success" if index in self.is_over else "deferred",
            }

    def log_lines(self, instance: dict[str, Any], *, attempt: int) -> list[dict[str, Any]]:
        key = (instance["map_index"], attempt)
        self.asked.append(key)
        if key not in self.logs:
            raise LookupError("no log yet")
        return [{"event": "a header without a time"}, *self.logs[key]]

    def run_state(self, dag_id: str, run_id: str) -> str:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


class FakeSession:
    def __init__(self, airflow: FakeAirflow) -> None:
        self.airflow = airflow
        self.address = Address("http://here")


def task_logs(airflow: Any, trial: int | None = None) -> TaskLogs:
    return TaskLogs(airflow, progress({}), trial)


def test_lines_of_trials_are_merged_by_time_and_each_comes_once() -> None:
    airflow = FakeAirflow()
    airflow.logs = {(0, 1): [line(1, "a"), line(3, "c")], (1, 1): [line(2, "b")]}
    logs = task_logs(airflow)
    assert list(logs.new_lines(is_last=False)) == [(2, "a"), (3, "b"), (2, "c")]
    # What the triggerer wrote comes late, in between; the same words again are news.
    airflow.logs[0, 1] = [line(1, "a"), line(2, "late"), line(3, "c"), line(3, "c")]
    assert list(logs.new_lines(is_last=False)) == [(2, "late"), (2, "c")]
    assert list(logs.new_lines(is_last=False)) == []


def test_only_the_trial_that_was_asked_for_is_read() -> None:
    airflow = FakeAirflow()
    airflow.logs = {(0, 1): [line(1, "a")], (1, 1): [line(2, "b")]}
    assert list(task_logs(airflow, trial=3).new_lines(is_last=True)) == [(3, "b")]
    assert airflow.asked == [(1, 1)]


def test_what_has_ended_is_not_asked_for_again_until_the_end() -> None:
    airflow = FakeAirflow()
    airflow.tries, airflow.is_over = {0: 2, 1: 1}, {1}
    logs = task_logs(airflow)
    list(logs.new_lines(is_last=False))
    airflow.asked.clear()
    list(logs.new_lines(is_last=False))
    assert airflow.asked == [(0, 2)]
    airflow.logs = {(1, 1): [line(9, "its last words")]}
    assert list(logs.new_lines(is_last=True)) == [(3, "its last words")]


def test_stored_logs_are_read_part_by_part() -> None:
    store = Logs(open_store("memory:///"), "digits/manual")
    first, second = LogRef(0, "z", "training"), LogRef(0, "a", "training")
    store.write(first, 0, b"one\ntw")
    store.write(LogRef(0, "z", "agent"), 0, b"not this\n")
    logs = StoredLogs(store, "training", None)
    assert list(logs.new_lines(is_last=False)) == [(0, "one")]
    store.write(first, 1, b"o\n")
    # The trial's next segment comes after its first, whatever their names.
    store.write(second, 0, b"three")
    assert list(logs.new_lines(is_last=False)) == [(0, "two")]
    assert list(logs.new_lines(is_last=True)) == [(0, "three")]
    assert list(StoredLogs(store, "training", 1).new_lines(is_last=True)) == []


def shown(session: Any, *, is_terminal: bool = False, **options: Any) -> str:
    console = Console(file=io.StringIO(), force_terminal=is_terminal, highlight=False)
    known: dict[str, Any] = {"trial": None, "container": None, "is_followed": True}
    study = options.pop("study", progress({}))
    show_logs(session, console, study, **{**known, **options})
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_following_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = FakeAirflow()
    airflow.states = ["running", "running", "success"]
    texts = iter(["a", "b", "c"])

    def write(_: float = 0) -> None:
        airflow.logs.setdefault((0, 1), []).append(line(1, next(texts)))

    write()
    monkeypatch.setattr(hpo_ops.cli.logs_command.time, "sleep", write)
    assert shown(FakeSession(airflow)) == "[trial 2] a\n[trial 2] b\n[trial 2] c\n"


def test_a_terminal_has_a_colour_for_each_trial_and_a_pipe_has_none() -> None:
    airflow = FakeAirflow()
    airflow.logs = {(0, 1): [line(1, "[bold]a")], (1, 1): [line(2, "b")]}
    session = FakeSession(airflow)
    assert shown(session, is_followed=False) == "[trial 2] [bold]a\n[trial 3] b\n"
    coloured = shown(session, is_followed=False, is_terminal=True).splitlines()
    assert coloured[0].startswith("\x1b[33m[trial 2]")
    assert coloured[1].startswith("\x1b[35m[trial 3]")


def test_a_container_is_read_from_the_store(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}"
    Logs(open_store(uri), "digits/manual").write(LogRef(5, "a", "agent"), 0, b"hello\n")
    study = progress({}, runner="kubernetes", store=uri)
    session = FakeSession(FakeAirflow())
    options = {"study": study, "container": "agent", "is_followed": False}
    assert shown(session, **options) == "[trial 5] hello\n"


def test_a_local_study_has_no_containers() -> None:
    with pytest.raises(CommandError, match="omit --container"):
        shown(FakeSession(FakeAirflow()), container="agent")


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ("\x1b]0;owned\x07done", "\\x1b]0;owneddone"),  # the title of the window
        ("\x1b[2J\x1b[Hall is well", "\\x1b[2J\\x1b[Hall is well"),  # clears the screen
        ("\x1b]52;c;cm0gLXJm\x1b\\\\", "\\x1b]52;c;cm0gLXJm\\x1b\\\\"),  # the clipboard
        ("\x9b31mred \u202egnp.exe", "\\x9b31mred \\u202egnp.exe"),
        ("\x1b[31mred\x1b[0m and 5%\r10%", "red and 5%10%"),  # what honest trainings print
        ("\x1b\x1b[0m[2J", "\\x1b[2J"),
    ],
)
def test_a_log_cannot_command_the_terminal(printed: str, seen: str) -> None:
    airflow = FakeAirflow()
    airflow.logs = {(0, 1): [line(1, printed)]}
    assert shown(FakeSession(airflow), is_followed=False) == f"[trial 2] {seen}\n"


@pytest.mark.parametrize(
    ("task_id", "label", "number"),
    [
        ("trial", "3", 3),
        ("trial", "12: lr=0.1 width=4", 12),
        ("round_00.trial", "0: lr=0.1", 0),
        ("round_00.trial", None, None),
        ("round_00.trial", "", None),
        ("round_00.trial", "lr=0.1", None),
        ("round_00.sample", "3: x", None),
        ("trial.collect", "3: x", None),
        ("trial", "-1: x", None),
    ],
)
def test_a_task_instance_names_its_trial_in_its_label(
    task_id: str, label: str | None, number: int | None
) -> None:
    assert _trial_number({"task_id": task_id, "rendered_map_index": label}) == number


def test_the_log_of_a_fold_is_that_of_its_trial() -> None:
    instance = {"task_id": "trial", "rendered_map_index": "3 fold 2/5: lr=0.01 → 0.93"}
    assert _trial_number(instance) == 3
