"""Rights per DAG, as an auth manager of Airflow's gives them: one DAG opens no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.api_fastapi import app as airflow_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.revoked_token import RevokedToken
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hpo_ops.airflow.plugin import log_in
from hpo_ops.client.transport import API
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.ledger import Ledger
from hpo_ops.ledger.leases import set_capacity
from tests.airflow.dag_rights import DagRightsAuthManager
from tests.gateway.entering import enter, entered
from tests.gateway.web import SECRET, task
from tests.studies import study_data

ROLES = {"reader": "VIEWER", "editor": "USER", "neighbour": "USER", "operator": "OP"}
DAGS = {
    "reader": {"a"},
    "editor": {"a", "hpo_study"},
    "neighbour": {"hpo_study"},
    "operator": {"a", "b", "hpo_study"},
}


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> DagRightsAuthManager:
    """Airflow's auth manager of this process; it signs tokens and checks them."""
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "j" * 64)
    # Airflow keeps revoked tokens in its database, which there is none of here.
    monkeypatch.setattr(RevokedToken, "is_revoked", lambda *_, **__: False)
    made = DagRightsAuthManager(DAGS)
    monkeypatch.setattr(airflow_app._AuthManagerState, "instance", made)
    return made


@pytest.fixture
def services(database: str) -> Iterator[Gateway]:
    ledger = Ledger.open(database)
    with ledger.engine.begin() as connection:
        set_capacity(connection, "local", 100)
    yield Gateway.on_ledger(ledger, SECRET)
    ledger.engine.dispose()


@pytest.fixture
def web(services: Gateway) -> TestClient:
    outer = FastAPI()
    outer.mount("/hpo", create_app(services, login=log_in))
    return TestClient(outer, raise_server_exceptions=False)


def login(manager: DagRightsAuthManager, name: str) -> dict[str, str]:
    user = SimpleAuthManagerUser(username=name, role=ROLES[name])
    return {"Authorization": f"Bearer {manager.generate_jwt(user)}"}


def test_who_has_one_dag_gets_nothing_of_another(
    web: TestClient, services: Gateway, manager: DagRightsAuthManager
) -> None:
    mine, other = (entered(web, name, name=name) for name in ("a", "b"))
    before = services.ledger.get(other["id"])
    for name in ("reader", "editor"):
        headers = login(manager, name)
        listed = web.get(f"{API}/studies", headers=headers).json()
        assert [study["name"] for study in listed] == ["a"]
        assert web.get(f"{API}/studies/{mine['id']}", headers=headers).status_code == 200
        assert web.get(f"{API}/studies/{other['id']}", headers=headers).status_code == 404
        assert web.get(f"{API}/names/b", headers=headers).status_code == 404
        part = web.post(f"{API}/reconcile", headers=headers, json=[]).json()
        assert [study["id"] for study in part["studies"]] == [mine["id"]]
        for action in ("stop", "pause", "resume", "close", "config", "leases/free"):
            path = f"{API}/studies/{other['id']}/{action}"
            assert web.post(path, headers=headers, json={}).status_code == 404
        trial = {"number": 0, "params": {"lr": 0.01, "width": 8}, "values": [0.5]}
        body: dict[str, Any] = {"config": study_data(name="b"), "source": "s", "trials": [trial]}
        assert web.post(f"{API}/imports", headers=headers, json=body).status_code == 403
        assert web.post(f"{API}/pools/local?capacity=1", headers=headers).status_code == 403
    assert services.ledger.get(other["id"]) == before
    warm = enter(web, "a", "next", name="a", owner="editor", warm_start={"study": "b"})
    assert warm.status_code == 422


def test_a_role_says_what_one_may_do_with_ones_dags(
    web: TestClient, manager: DagRightsAuthManager
) -> None:
    path = f"{API}/studies/{entered(web, 'a', name='a')['id']}/stop"
    assert web.post(path, headers=login(manager, "reader")).status_code == 403
    assert web.post(path, headers=login(manager, "editor")).status_code == 200


def test_on_a_generic_dag_only_owner_and_operator_act(
    web: TestClient, manager: DagRightsAuthManager
) -> None:
    path = f"{API}/studies/{entered(web, 'hpo_study', owner='editor')['id']}"
    statuses = {
        name: [
            web.get(path, headers=login(manager, name)).status_code,
            web.post(f"{path}/pause", headers=login(manager, name)).status_code,
        ]
        for name in ROLES
    }
    assert statuses == {
        "reader": [404, 404],
        "editor": [200, 200],
        "neighbour": [200, 403],
        "operator": [200, 200],
    }


def test_a_token_that_airflow_did_not_sign_is_refused(
    web: TestClient, manager: DagRightsAuthManager
) -> None:
    headers = login(manager, "operator")
    forged = {"Authorization": headers["Authorization"][:-4] + "AAAA"}
    assert web.get(f"{API}/studies", headers=headers).status_code == 200
    assert web.get(f"{API}/studies", headers=forged).status_code in (401, 403)
    assert web.get(f"{API}/studies", headers=task()).status_code == 200
