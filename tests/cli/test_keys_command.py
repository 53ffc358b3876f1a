"""``hpo keys``: keys are made, rotated and retired."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hpo_ops.cli.commands import app
from hpo_ops.cli.connection import STATE_FOLDER
from hpo_ops.client.token_signing import KeyRing, parse_task_key
from hpo_ops.gateway.tokens import read_token
from hpo_ops.stack._stack_settings import Settings
from hpo_ops.stack.stack_files import Layout
from hpo_ops.stack.stack_secrets import Secrets


def hpo(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("HPO_GATEWAY_KEYS", "HPO_GATEWAY_SECRET"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_a_ring_grows_in_front_and_gives_the_tasks_their_key(
    environment: pytest.MonkeyPatch,
) -> None:
    first = KeyRing.parse(hpo("keys", "new"))
    environment.setenv("HPO_GATEWAY_KEYS", first.to_text())
    second = KeyRing.parse(hpo("keys", "new"))
    assert second.keys[1:] == first.keys
    assert parse_task_key(hpo("keys", "task")).id == first.first.id
    assert read_token(first, hpo("keys", "token")).kind == "service"


def test_the_keys_of_a_stack_are_rotated_and_retired(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment.chdir(tmp_path)
    layout = Layout(tmp_path / STATE_FOLDER)
    layout.make()
    secrets = Secrets.load_or_make(layout.secrets_file)
    Settings.of_project(tmp_path, port=1, s3_port=2).write(layout, secrets)

    def ids() -> list[str]:
        return [key.id for key in Secrets.load_or_make(layout.secrets_file).keys]

    (old,) = ids()
    hpo("keys", "rotate")
    new, kept = ids()
    assert kept == old
    hpo("keys", "rotate", "--retire")
    assert ids() == [new]
    assert layout.secrets_file.stat().st_mode & 0o077 == 0
