"""Whom the command line talks to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import STATE_FOLDER, Address, find_address

VARIABLES = {"HPO_URL": "http://far", "HPO_USERNAME": "ann", "HPO_PASSWORD": "p"}


def put_stack(folder: Path, url: str) -> None:
    (folder / STATE_FOLDER).mkdir(parents=True)
    known = {"url": url, "username": "admin", "password": "secret"}
    (folder / STATE_FOLDER / "stack.json").write_text(json.dumps(known))


def test_the_environment_comes_first(tmp_path: Path) -> None:
    put_stack(tmp_path, "http://near")
    assert find_address(VARIABLES, tmp_path) == Address("http://far", "ann", "p")


def test_a_token_in_the_environment_needs_no_login(tmp_path: Path) -> None:
    address = find_address({"HPO_URL": "http://far", "HPO_TOKEN": "t"}, tmp_path)
    assert address == Address("http://far", token="t")  # noqa: S106  not a secret


def test_the_stack_of_the_nearest_folder_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    put_stack(tmp_path, "http://outer")
    assert find_address({}, inner) == Address("http://outer", "admin", "secret")
    put_stack(tmp_path / "a", "http://inner")
    assert find_address({}, inner).url == "http://inner"


def test_the_store_of_a_stack_is_known(tmp_path: Path) -> None:
    put_stack(tmp_path, "http://near")
    file = tmp_path / STATE_FOLDER / "stack.json"
    s3 = {"endpoint": "http://127.0.0.1:9", "access_key": "a", "secret_key": "s", "bucket": "hpo"}
    file.write_text(json.dumps({**json.loads(file.read_text()), "s3": s3}))
    store = find_address({}, tmp_path).store
    assert store is not None
    assert (store.access_key_id, store.endpoint) == ("a", "http://127.0.0.1:9")


def test_without_any_the_way_to_get_one_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="hpo up") as error:
        find_address({}, tmp_path)
    assert "HPO_URL" in str(error.value)


def test_an_empty_address_is_none(tmp_path: Path) -> None:
    put_stack(tmp_path, "http://near")
    assert find_address({"HPO_URL": ""}, tmp_path).url == "http://near"


@pytest.mark.parametrize("text", ["", "{", "{}", "[]"])
def test_a_broken_stack_file_is_told_in_a_sentence(tmp_path: Path, text: str) -> None:
    put_stack(tmp_path, "http://near")
    (tmp_path / STATE_FOLDER / "stack.json").write_text(text)
    with pytest.raises(CommandError):
        find_address({}, tmp_path)
