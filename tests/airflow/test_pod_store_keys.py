"""What pods are given of the store's connection."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hpo_ops.airflow.connections import (
    pod_role,
    pod_store_environment,
    pods_get_platform_keys,
    token_endpoint,
)

ROLE = "arn:aws:iam::111122223333:role/hpo-pod"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "HPO_POD_HOST"):
        monkeypatch.delenv(name, raising=False)


def connect(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    connection = {"conn_type": "aws", "login": "key", "password": "secret", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HPO_S3", json.dumps(connection))


def test_with_a_role_a_pod_gets_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, endpoint_url="https://s3.example", pod_role_arn=ROLE)

    assert pod_store_environment() == {
        "HPO_STORE_SESSION": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": "https://s3.example",
    }
    assert not pods_get_platform_keys()


def test_without_a_role_a_pod_gets_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, endpoint_url="https://s3.example")

    given = pod_store_environment()
    assert (given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"]) == ("key", "secret")
    assert "HPO_STORE_SESSION" not in given
    assert pods_get_platform_keys()


@pytest.mark.parametrize("role", ["hpo-pod", "arn:aws:iam::1:user/x", "arn:aws:iam::1:role/*"])
def test_a_role_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    connect(monkeypatch, pod_role_arn=role)

    with pytest.raises(ValueError, match="hpo_s3: pod_role_arn is"):
        pod_role()


def test_sessions_are_asked_of_the_store_s_own_service(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, pod_role_arn=ROLE)
    assert token_endpoint() is None
    connect(monkeypatch, endpoint_url="https://s3.example", pod_role_arn=ROLE)
    assert token_endpoint() == "https://s3.example"
    connect(monkeypatch, service_config={"sts": {"endpoint_url": "https://sts.example"}})
    assert token_endpoint() == "https://sts.example"
