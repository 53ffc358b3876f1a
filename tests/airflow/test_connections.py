"""How Airflow's tasks reach the gateway: with tokens of minutes, for their own DAG run only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import jwt
import pytest

from hpo_ops.airflow import connections
from hpo_ops.client import GatewayRefusedError, StudyRequest, Waiter
from hpo_ops.client.transport import API, request_headers
from hpo_ops.gateway.gateway_settings import open_gateway
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.stack._airflow_environment import _gateway_connection, api_server_environment
from hpo_ops.stack._stack_settings import Settings
from hpo_ops.stack.stack_secrets import Secrets
from tests.servers import served
from tests.studies import study_data

HOUR = 3600


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens of all requests that were sent."""
    tokens: list[str] = []
    send = httpx.Client.send

    def listen(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        tokens.append(request.headers["Authorization"].removeprefix("Bearer "))
        return send(self, request, **options)

    monkeypatch.setattr(httpx.Client, "send", listen)
    return tokens


@pytest.fixture
def task(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, str], Any]]:
    """Connects to a gateway as `make up` sets it up, from a task of a DAG run."""
    secrets = Secrets()
    studies = open_gateway(api_server_environment(secrets, ledger_url=database))
    with served(create_app(studies)) as port:
        settings = Settings.of_project(tmp_path, port=port, s3_port=1)
        connection = _gateway_connection(settings, secrets)
        monkeypatch.setenv("AIRFLOW_CONN_HPO_GATEWAY", connection)

        def connect(dag_id: str, run_id: str) -> Any:
            instance = SimpleNamespace(dag_id=dag_id, run_id=run_id, task_id="trial", map_index=0)
            monkeypatch.setattr(
                connections, "get_current_context", lambda: {"ti": instance}, raising=False
            )
            return connections.connect_gateway()

        yield connect
    studies.ledger.engine.dispose()


def request(dag_id: str, run_id: str) -> StudyRequest:
    return StudyRequest(config=study_data(name="victim"), dag_id=dag_id, run_id=run_id)


def test_a_task_cannot_touch_the_study_of_another_dag_run(
    task: Callable[[str, str], Any],
) -> None:
    victim = task("victim", "monday")
    study = victim.start_study(request("victim", "monday"))
    assert victim.verdict(study.id).reason
    for dag_id, run_id in (("attacker", "monday"), ("victim", "tuesday")):
        attacker = task(dag_id, run_id)
        for attack in (
            lambda: attacker.end_study(study.id, {}),  # noqa: B023  called at once
            lambda: attacker.stop(study.id, "stopped"),  # noqa: B023
            lambda: attacker.trials(study.id),  # noqa: B023
            lambda: attacker.change(study.id, {"trials": 1}),  # noqa: B023
            lambda: attacker.next_action("victim", "monday", 0, key="k"),  # noqa: B023
            lambda: attacker.start_study(request("victim", "monday")),  # noqa: B023
            lambda: attacker.close_study(study.id, "closed"),  # noqa: B023
            lambda: attacker.set_pool("local", 0),  # noqa: B023
            lambda: attacker.find("victim"),  # noqa: B023
        ):
            with pytest.raises(GatewayRefusedError):
                attack()
    assert victim.progress(study.id).state == "running"


def test_a_task_reaches_the_segments_of_its_own_run_only(
    task: Callable[[str, str], Any],
) -> None:
    victim = task("victim", "monday")
    study = victim.start_study(request("victim", "monday"))
    victim.sample(study.id, 0, rounds_left=1)
    turn = victim.next_action("victim", "monday", 0, key="k")
    segment = turn.assignment.segment
    attacker = task("attacker", "monday")
    with pytest.raises(GatewayRefusedError):
        attacker.request("GET", f"/segments/{segment}/curve")
    with pytest.raises(GatewayRefusedError):
        attacker.request("GET", "/segments/none/curve")
    assert victim.request("GET", f"/segments/{segment}/curve") == []


def test_the_tokens_of_tasks_live_for_minutes(
    task: Callable[[str, str], Any], seen: list[str]
) -> None:
    gateway = task("victim", "monday")
    gateway.start_study(request("victim", "monday"))
    claims = jwt.decode(seen[-1], options={"verify_signature": False})
    assert claims["exp"] - claims.get("iat", 0) <= HOUR
    assert (claims["dag"], claims["run"]) == ("victim", "monday")


def test_the_connection_does_not_hold_the_gateways_own_key(tmp_path: Path) -> None:
    secrets = Secrets()
    settings = Settings.of_project(tmp_path, port=1, s3_port=2)
    password = json.loads(_gateway_connection(settings, secrets))["password"]
    assert secrets.keys.first.secret not in password
    assert secrets.keys.first.id in password


def test_the_reconciler_repairs_all_studies_and_runs_none(
    task: Callable[[str, str], Any],
) -> None:
    study = task("victim", "monday").start_study(request("victim", "monday"))
    reconciler = task("hpo_reconcile", "scheduled")
    assert [item.id for item in reconciler.ledger_part().studies] == [study.id]
    assert reconciler.config(study.id)["name"] == "victim"
    for attack in (
        lambda: reconciler.change(study.id, {"trials": 1}),
        lambda: reconciler.next_action("victim", "monday", 0, key="k"),
        lambda: reconciler.end_study(study.id, {}),
    ):
        with pytest.raises(GatewayRefusedError):
            attack()
    reconciler.close_study(study.id, "its run is over")


def test_the_triggerer_asks_who_may_go_on_and_nothing_else(
    task: Callable[[str, str], Any],
) -> None:
    study = task("victim", "monday").start_study(request("victim", "monday"))

    async def ask() -> tuple[str, dict[str, str]]:
        async with httpx.AsyncClient() as http:
            triggerer = await connections.connect_triggerer(http)
            assert await triggerer.ready([Waiter(study_id=study.id, trial=0)]) == []
            assert await triggerer.keep_alive(["unknown"]) == ["unknown"]
            return triggerer._url, request_headers(triggerer._token)

    url, headers = asyncio.run(ask())
    api = f"{url}{API}"
    for path in (f"/studies/{study.id}/verdict", f"/studies/{study.id}/end", "/reconcile"):
        assert httpx.post(f"{api}{path}", json={}, headers=headers).status_code == 403
    assert httpx.get(f"{api}/studies/{study.id}", headers=headers).status_code == 403


def test_a_token_as_the_password_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HPO_GATEWAY", '{"conn_type": "http", "password": "a.b.c"}')
    instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1)
    monkeypatch.setattr(connections, "get_current_context", lambda: {"ti": instance})
    with pytest.raises(ValueError, match="hpo keys task"):
        connections.connect_gateway()
