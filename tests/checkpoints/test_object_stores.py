from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import obstore
import pytest
from obstore.store import LocalStore, MemoryStore, S3Store

from hpo_ops.checkpoints import STORE_ERRORS, Checkpoints, Credentials, open_store
from tests.s3 import BUCKET


def test_the_address_chooses_the_store(tmp_path: Path) -> None:
    assert isinstance(open_store(f"file://{tmp_path}/a%20b"), LocalStore)
    assert (tmp_path / "a b").is_dir()
    assert isinstance(open_store("memory:///"), MemoryStore)
    assert isinstance(open_store("s3://bucket/path", Credentials()), S3Store)


@pytest.mark.parametrize("uri", ["gopher://x", "models/hpo", "s3://", "file://host/x"])
def test_another_address_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="but must be s3://bucket/path or file:///path"):
        open_store(uri)


def test_credentials_come_from_the_standard_variables_and_are_not_shown() -> None:
    variables = {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    }
    credentials = Credentials.from_environment(variables)
    assert credentials.endpoint == "http://127.0.0.1:1"
    assert credentials.secret_access_key == variables["AWS_SECRET_ACCESS_KEY"]
    assert "hush" not in repr(credentials)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "http://localhost:9", "https://x"])
def test_plain_http_is_fine_on_this_machine(endpoint: str) -> None:
    store = open_store("s3://b", Credentials(endpoint=endpoint))
    assert getattr(store, "config")["endpoint"] == endpoint  # noqa: B009, not every store has one


def test_plain_http_elsewhere_must_be_asked_for() -> None:
    with pytest.raises(ValueError, match="AWS_ALLOW_HTTP=true"):
        open_store("s3://b", Credentials(endpoint="http://10.0.0.1:9"))
    open_store("s3://b", Credentials(endpoint="http://10.0.0.1:9", allow_http=True))


@pytest.mark.e2e
def test_a_wrong_secret_is_an_error_and_not_an_empty_store(s3: Credentials) -> None:
    wrong = replace(s3, secret_access_key="wrong")  # noqa: S106
    checkpoints = Checkpoints(open_store(f"s3://{BUCKET}", wrong), "s")
    with pytest.raises(STORE_ERRORS):
        checkpoints.complete(0)


@pytest.mark.e2e
def test_the_environment_is_enough_to_reach_s3(
    s3: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint or "")
    store = open_store(f"s3://{BUCKET}/environment")
    obstore.put(store, "x", b"1")
    assert bytes(obstore.get(open_store(f"s3://{BUCKET}"), "environment/x").bytes()) == b"1"
