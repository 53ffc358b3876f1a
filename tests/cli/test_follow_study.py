"""Following a study while the api-server is started again."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from hpo_ops.cli import follow_study as follow_module
from hpo_ops.cli.command_errors import AirflowUnavailableError
from hpo_ops.cli.follow_study import follow
from hpo_ops.client import GatewayUnreachableError


def a_session(states: Iterator[Any]) -> Any:
    """A session whose answers, or errors, come one after the other."""

    def answer(*_: object) -> Any:
        state = next(states)
        if isinstance(state, Exception):
            raise state
        return state

    def find(*_: object, **__: object) -> Any:
        raise LookupError

    return SimpleNamespace(
        airflow=SimpleNamespace(run_state=answer), gateway=SimpleNamespace(find=find)
    )


def follow_through(states: list[Any]) -> bool:
    return follow(
        a_session(iter(states)),
        Console(file=io.StringIO()),
        dag_id="digits",
        run_id="run",
        name="digits",
    )


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_module, "POLL_SECONDS", 0.01)


def test_an_api_server_that_comes_back_is_waited_for() -> None:
    away = AirflowUnavailableError("Airflow does not answer")
    assert follow_through(["running", away, GatewayUnreachableError("503"), "running", "success"])


def test_an_api_server_that_stays_away_ends_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follow_module, "UNAVAILABLE_SECONDS", 0.05)
    away = AirflowUnavailableError("Airflow does not answer")
    with pytest.raises(AirflowUnavailableError, match="does not answer"):
        follow_through(["running", *[away] * 100])
