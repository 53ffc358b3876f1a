"""What the gateway answers to mistakes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError

from hpo_ops.client import (
    NextAction,
    NextActionKind,
    StudyRequest,
)
from hpo_ops.client.transport import API
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.gateway_settings import open_gateway
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.gateway.http.request_limits import MAX_REPORTS
from hpo_ops.ledger import Ledger
from tests.databases import fresh_database
from tests.gateway.web import SECRET, bearer, begin, mounted, segment_of, task
from tests.studies import study_data


@pytest.mark.parametrize(
    ("method", "path", "status", "sentence"),
    [
        ("GET", "/studies/99", 404, "there is no study with the id 99"),
        ("GET", "/studies/99999999999999999999", 404, "there is no study with the id 9999"),
        ("GET", "/names/none", 404, "there is no study none"),
        ("GET", "/names/small?run_id=x", 404, "there is no study small with the run x"),
        ("POST", "/studies/99/verdict", 404, "there is no study with the id 99"),
        (
            "POST",
            "/trials/0/next_action?dag_id=x&run_id=y&key=a",
            404,
            "the run y of x has no study",
        ),
        ("POST", "/trials/99/next_action?RUN&key=a", 404, "has no trial 99"),
        ("POST", "/segments/none/reports", 404, "there is no segment none"),
        ("GET", "/studies/x", 422, "valid integer"),
        ("GET", "/studies?limit=0", 422, "greater than or equal to 1"),
        ("GET", "/studies?limit=1000000", 422, "less than or equal to"),
        ("GET", "/nothing", 404, "Not Found"),
    ],
)
def test_a_mistake_is_answered_with_a_status_and_a_sentence(
    lasting_web: TestClient,
    lasting: Gateway,
    begun: tuple[int, NextAction],
    method: str,
    path: str,
    status: int,
    sentence: str,
) -> None:
    study_id, _ = begun
    record = lasting.ledger.get(study_id)
    path = path.replace("RUN", f"dag_id={record.dag_id}&run_id={record.run_id}")
    body: dict[str, Any] = {"json": []} if path.endswith("reports") else {}
    answer = lasting_web.request(method, f"{API}{path}", headers=task(), **body)
    assert answer.status_code == status
    assert sentence in answer.text


def test_a_study_that_cannot_be_used_is_refused_with_all_its_problems(
    lasting_web: TestClient,
) -> None:
    config = study_data(trials=0, space={})
    request = {"config": config, "dag_id": "small", "run_id": "r"}
    answer = lasting_web.post(f"{API}/studies", headers=task(), json=request)
    assert answer.status_code == 422
    assert "trials is 0, but must be 1 or more" in answer.json()["detail"]
    assert "space is empty" in answer.json()["detail"]


NUL = chr(0)
BAD_REPORTS: list[tuple[str, object, int]] = [
    ("no list", {"step": 1, "metrics": {"accuracy": 0.5}}, 422),
    ("a negative step", [{"step": -1, "metrics": {"accuracy": 0.5}}], 422),
    ("half a step", [{"step": 1.5, "metrics": {"accuracy": 0.5}}], 422),
    ("no step", [{"metrics": {"accuracy": 0.5}}], 422),
    ("no metrics", [{"step": 1, "metrics": {}}], 422),
    ("text as a value", [{"step": 1, "metrics": {"accuracy": "good"}}], 422),
    ("negative time", [{"step": 1, "metrics": {"accuracy": 1}, "seconds": -1}], 422),
    ("no JSON", b"step 1: good", 422),
    ("no text", b"\xff\xff", 400),
    ("nests without end", b"[" * 100_000, 400),
    ("too many", [{"step": 1, "metrics": {"accuracy": 0.5}}] * (MAX_REPORTS + 1), 413),
]
WORSE_REPORTS: list[tuple[str, object, int]] = [
    ("not a number", b'[{"step": 1, "metrics": {"accuracy": NaN}}]', 422),
    ("infinity", b'[{"step": 1, "metrics": {"accuracy": Infinity}}]', 422),
    ("another metric that is none", b'[{"step": 1, "metrics": {"accuracy": 1, "x": NaN}}]', 422),
    ("another metric only", [{"step": 1, "metrics": {"loss": 0.5}}], 422),
    ("a step beyond integers", [{"step": 10**12, "metrics": {"accuracy": 0.5}}], 422),
    ("a NUL in a name", [{"step": 1, "metrics": {"accuracy": 0.5, f"a{NUL}": 1}}], 422),
]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        *(pytest.param(body, status, id=name) for name, body, status in BAD_REPORTS),
        *(pytest.param(body, status, id=n) for n, body, status in WORSE_REPORTS),
    ],
)
def test_a_bad_report_is_refused_and_leaves_nothing(
    lasting_web: TestClient, lasting: Gateway, body: object, status: int
) -> None:
    study_id, turn = begin(lasting)
    raw = body if isinstance(body, bytes) else json.dumps(body)
    headers = {**bearer(turn.token or ""), "Content-Type": "application/json"}
    path = f"{API}/segments/{segment_of(turn)}/reports"
    answer = lasting_web.post(path, headers=headers, content=raw)
    assert answer.status_code == status
    assert answer.json()["detail"]
    good = [{"step": 1, "metrics": {"accuracy": 0.25}}]
    assert lasting_web.post(path, headers=headers, json=good).is_success
    curve = lasting_web.get(f"{API}/studies/{study_id}/trials/0/reports", headers=task()).json()
    assert [(point["step"], point["metrics"]) for point in curve] == [(1, {"accuracy": 0.25})]


def test_as_many_reports_as_allowed_are_taken(lasting_web: TestClient, lasting: Gateway) -> None:
    study_id, turn = begin(lasting)
    many = [{"step": step, "metrics": {"accuracy": 0.1}} for step in range(1, MAX_REPORTS + 1)]
    path = f"{API}/segments/{segment_of(turn)}/reports"
    answer = lasting_web.post(path, headers=bearer(turn.token or ""), json=many)
    assert answer.status_code == 200
    with lasting.ledger.study(study_id) as session:
        assert session.view.trials[0].step == MAX_REPORTS


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("result", {"outcome": "weird"}),
        ("result", {}),
        ("checkpoints", {"step": 1}),
        ("checkpoints", {"step": "x", "uri": "s3://x", "files": 1, "bytes": 1}),
        pytest.param(
            "checkpoints",
            {"step": -3, "uri": "s3://x", "files": -1, "bytes": 1},
        ),
        pytest.param("checkpoints", {"step": 10**12, "uri": "s3://x", "files": 1, "bytes": 1}),
    ],
)
def test_a_bad_message_of_an_agent_is_refused(
    lasting_web: TestClient, begun: tuple[int, NextAction], part: str, body: dict[str, Any]
) -> None:
    _, turn = begun
    path = f"{API}/segments/{segment_of(turn)}/{part}"
    answer = lasting_web.post(path, headers=bearer(turn.token or ""), json=body)
    assert answer.status_code == 422


def test_a_result_whose_reason_holds_anything_is_absorbed(
    lasting_web: TestClient, lasting: Gateway
) -> None:
    study_id, turn = begin(lasting)
    result = {"outcome": "failed", "reason": f"exit code 1: binary {NUL} on the last line"}
    path = f"{API}/segments/{segment_of(turn)}/result"
    headers, body = bearer(turn.token or ""), {"result": result}
    assert lasting_web.post(path, headers=headers, json=body).status_code == 200
    assert lasting.next_actions.next_action(study_id, 0, "b").kind is NextActionKind.DONE


def test_a_segment_that_is_over_is_gone_but_may_say_so_again(
    lasting_web: TestClient, lasting: Gateway
) -> None:
    _, turn = begin(lasting)
    path, headers = f"{API}/segments/{segment_of(turn)}", bearer(turn.token or "")
    body = {"result": {"outcome": "stopped", "step": 3, "reason": "told to"}}
    for _ in range(2):
        assert lasting_web.post(f"{path}/result", headers=headers, json=body).status_code == 200
    answer = lasting_web.post(f"{path}/reports", headers=headers, json=[])
    assert answer.status_code == 410
    assert answer.json() == {"detail": f"segment {segment_of(turn)} has ended"}
    checkpoint = {"step": 3, "uri": "s3://x", "files": 1, "bytes": 1}
    answer = lasting_web.post(f"{path}/checkpoints", headers=headers, json=checkpoint)
    assert answer.status_code == 410


def test_a_database_that_is_away_is_answered_with_try_later(
    lasting_web: TestClient, lasting: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("SELECT 1", {}, Exception("server closed the connection"))

    monkeypatch.setattr(Ledger, "get", fail)
    assert lasting_web.get(f"{API}/studies/1", headers=task()).status_code == 503


def test_a_database_that_is_gone_is_not_described_to_callers_but_in_the_log(
    postgres: URL, template: str, caplog: pytest.LogCaptureFixture
) -> None:
    with fresh_database(postgres, template) as address:
        services = Gateway.on_ledger(Ledger.open(address), SECRET)
        web = mounted(services)
        assert web.get(f"{API}/studies", headers=task()).json() == []
    answer = web.get(f"{API}/studies", headers=task())
    assert answer.status_code == 503
    detail = answer.json()["detail"]
    assert not re.search(r"SELECT|socket|test_|psycopg2|sqlalche", detail)
    error_id = re.search(r"error (\w+) in the gateway's log", detail)
    assert error_id
    assert error_id[1] in caplog.text
    services.ledger.engine.dispose()


def test_every_route_is_described_in_the_openapi_page(lasting: Gateway) -> None:
    app = create_app(lasting)
    described = app.openapi()["paths"]
    for route in app.routes:
        if isinstance(route, APIRoute):
            for method in route.methods:
                entry = described[route.path_format][method.lower()]
                assert entry["description"].strip().endswith(".")


@pytest.mark.parametrize("store", ["s3://victim", "s3://hpo/../victim", "file:///etc"])
def test_a_store_that_the_operator_does_not_allow_is_refused(database: str, store: str) -> None:
    environment = {
        "HPO_LEDGER_URL": database,
        "HPO_GATEWAY_KEYS": SECRET.to_text(),
        "HPO_CHECKPOINT_STORE": "s3://hpo",
    }
    services = open_gateway(environment)
    config = study_data(checkpoints={"store": store})
    body = StudyRequest(config=config, dag_id="small", run_id="r").to_dict()

    answer = mounted(services).post(f"{API}/studies", json=body, headers=task())

    services.ledger.engine.dispose()
    assert answer.status_code == 422
    assert f"checkpoints.store is {store!r}" in answer.json()["detail"]
