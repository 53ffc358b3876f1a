import json
import socket
import stat
from pathlib import Path

import pytest

from hpo_ops.stack import Stack, StackError
from hpo_ops.stack._free_ports import choose_port, is_free
from hpo_ops.stack._stack_settings import Settings
from hpo_ops.stack.stack_files import Layout
from hpo_ops.stack.stack_secrets import Secrets


def test_a_taken_port_is_replaced_by_a_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert not is_free(port)
        chosen = choose_port(port)

    assert chosen != port
    assert is_free(chosen)


def test_all_offsets_of_a_port_are_free() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert choose_port(port - 1, offsets=(0, 1)) != port - 1


def test_secrets_are_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"

    made = Secrets.load_or_make(path)

    assert Secrets.load_or_make(path) == made
    assert Secrets() != made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made.admin_password not in repr(made)


def test_settings_are_remembered_in_a_private_file(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    settings = Settings.of_project(tmp_path / "project", port=8081, s3_port=8343)

    settings.write(layout, Secrets())

    assert Settings.read(layout) == settings
    assert stat.S_IMODE(layout.stack_file.stat().st_mode) == 0o600
    content = json.loads(layout.stack_file.read_text())
    assert content["url"] == "http://127.0.0.1:8081"
    assert {"username", "password", "s3"} <= content.keys()


def test_what_is_given_wins_over_what_is_remembered(tmp_path: Path) -> None:
    Settings.of_project(tmp_path / "a", port=8081, s3_port=8343).write(Layout(tmp_path), Secrets())

    assert Stack(tmp_path).url == "http://127.0.0.1:8081"
    assert Stack(tmp_path).dags == tmp_path / "a" / "dags"
    assert Stack(tmp_path, port=9000).url == "http://127.0.0.1:9000"
    assert Stack(tmp_path, project=tmp_path / "b").dags == tmp_path / "b" / "dags"


def test_a_folder_without_a_stack_says_so(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"stack\.json"):
        Stack.at(tmp_path)


def test_a_stack_that_never_ran_stops_and_has_a_status(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "none")

    stack.stop()

    assert not any(status.is_running for status in stack.status())
    assert not (tmp_path / "none").exists()


def test_the_secret_of_an_older_stack_becomes_a_key_with_an_id(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    Secrets.load_or_make(path)
    content = json.loads(path.read_text())
    del content["gateway_keys"]
    path.write_text(json.dumps({**content, "gateway_secret": "s" * 43}))

    read = Secrets.load_or_make(path)

    assert [(key.id, key.secret) for key in read.keys] == [("first", "s" * 43)]
    assert Secrets.load_or_make(path) == read
