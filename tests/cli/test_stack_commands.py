"""``hpo up``: what it starts, and how it ends."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from typer.testing import CliRunner

from hpo_ops.cli.commands import app


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


class FakeStack:
    """A stack of which the supervision is interrupted at once, as by Ctrl-C."""

    url, username, password = "http://127.0.0.1:1", "admin", "secret"
    done: list[str]

    def __init__(self, *_: object, **__: object) -> None:
        FakeStack.done = []

    def start(self, _: object) -> None:
        self.done.append("start")

    def supervise(self, _: object, *, until: object) -> None:
        self.done.append("supervise")
        raise KeyboardInterrupt

    def stop(self, _: object) -> None:
        self.done.append("stop")


def test_up_in_the_foreground_supervises_and_stops_everything_on_ctrl_c(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hpo_ops.cli.stack_commands.Stack", FakeStack)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert run("up", "--foreground").exit_code == 0
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert FakeStack.done == ["start", "supervise", "stop"]
    assert run("up").exit_code == 0
    assert FakeStack.done == ["start"]
