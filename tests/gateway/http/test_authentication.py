"""Who gets into the gateway, and who does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

import jwt
import pytest
from fastapi.testclient import TestClient
from starlette.routing import BaseRoute

from hpo_ops.checkpoints import Store
from hpo_ops.client import NextAction
from hpo_ops.client.token_signing import AUDIENCE, Purpose
from hpo_ops.client.transport import API
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.gateway.services.job_submission import Platform, Runs
from hpo_ops.gateway.tokens import issue_segment_token
from hpo_ops.ledger import Ledger
from tests.gateway.web import (
    SECRET,
    bearer,
    begin,
    log_in,
    person,
    segment_of,
    task,
)
from tests.jobs import SAMPLE
from tests.ledger.test_ledger import everything
from tests.studies import study_data


@cache
def without_ledger(*, has_login: bool = True) -> TestClient:
    """A gateway that turns people away before it touches a ledger."""
    services = Gateway.on_ledger(cast(Ledger, None), SECRET)
    return TestClient(create_app(services, login=log_in if has_login else None))


def routes() -> list[tuple[str, str, list[str]]]:
    """Every method and path that the app answers, with the tags of its route."""
    app = create_app(Gateway.on_ledger(cast(Ledger, None), SECRET), login=log_in)

    def of(route: BaseRoute) -> Iterator[tuple[str, str, list[str]]]:
        path = re.sub(r"{[^}]*}", "1", getattr(route, "path", ""))
        for method in sorted(getattr(route, "methods", None) or {"GET"}):
            yield method, path, getattr(route, "tags", [])

    return [found for route in app.routes for found in of(route)]


ROUTES = routes()
TASKS = [(method, path) for method, path, tags in ROUTES if "tasks" in tags]
AGENTS = [(method, path) for method, path, tags in ROUTES if "agents" in tags]
OF_STUDIES = [
    (method, path) for method, path, tags in ROUTES if "people" in tags and "/studies/1" in path
]


def test_there_are_routes_to_look_at() -> None:
    assert len(ROUTES) > 20
    assert TASKS
    assert AGENTS
    assert OF_STUDIES


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param(
            method,
            path,
        )
        for method, path, _ in ROUTES
    ],
)
@pytest.mark.parametrize("has_login", [True, False], ids=["with login", "alone"])
def test_nothing_answers_without_a_credential(method: str, path: str, has_login: bool) -> None:
    client = without_ledger(has_login=has_login)
    for headers in ({}, bearer(""), bearer("nonsense"), {"Authorization": "Basic YTpi"}):
        assert client.request(method, path, headers=headers).status_code == 401


def forged(**changes: Any) -> str:
    """A service token with something wrong."""
    secret = changes.pop("secret", SECRET.first.derive(Purpose.SERVICE).secret)
    header = {"kid": changes.pop("kid", SECRET.first.id)}
    claims = {
        "kind": "service",
        "sub": "tasks",
        "aud": AUDIENCE,
        "iat": datetime.now(UTC),
        "exp": datetime.now(UTC) + timedelta(minutes=59),
        **changes,
    }
    kept = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(kept, secret, algorithm="HS256" if secret else "none", headers=header)


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": datetime.now(UTC) - timedelta(seconds=90)},
        {"exp": None},
        {"exp": datetime.now(UTC) + timedelta(days=365)},
        {"iat": None},
        {"kid": "another"},
        {"secret": SECRET.first.secret},
        {"secret": "x" * 32},
        {"secret": None},
        {"aud": "airflow"},
        {"aud": None},
        {"kind": "admin"},
        {"kind": None},
        {"sub": None},
    ],
    ids=[
        "expired",
        "endless",
        "a year",
        "ageless",
        "another key",
        "not derived",
        "forged",
        "unsigned",
        "elsewhere",
        "anywhere",
        "kind",
        "no",
        "who",
    ],
)
def test_a_token_that_is_not_ours_is_refused(
    lasting_web: TestClient, changes: dict[str, Any]
) -> None:
    assert lasting_web.get(f"{API}/studies", headers=bearer(forged())).status_code == 200
    answer = lasting_web.get(f"{API}/studies", headers=bearer(forged(**changes)))
    assert answer.status_code == 401


@pytest.mark.parametrize(("method", "path"), TASKS)
@pytest.mark.parametrize("who", ["segment", "ann"])
def test_what_tasks_do_is_for_tasks_only(method: str, path: str, who: str) -> None:
    client = without_ledger()
    headers = bearer(issue_segment_token(SECRET, "1")) if who == "segment" else person(who)
    answer = client.request(method, path, headers=headers, params={"key": "a", "rounds_left": 1})
    assert answer.status_code == 403
    assert answer.json() == {"detail": "only tasks of the study's DAG run may send this request"}


@pytest.mark.parametrize(("method", "path"), AGENTS)
@pytest.mark.parametrize("who", ["another segment", "ann"])
def test_a_segment_is_for_its_own_token_only(method: str, path: str, who: str) -> None:
    client = without_ledger()
    headers = person(who) if who == "ann" else bearer(issue_segment_token(SECRET, "2"))
    answer = client.request(method, path, headers=headers, json=[])
    assert answer.status_code == 403
    assert answer.json() == {"detail": "this token is not valid for segment 1"}


@pytest.mark.parametrize(("method", "path"), OF_STUDIES)
@pytest.mark.parametrize("who", ["segment", "eve"])
def test_a_study_is_shown_to_those_with_the_right_only(
    lasting_web: TestClient, begun: tuple[int, NextAction], method: str, path: str, who: str
) -> None:
    study_id, turn = begun
    path = path.replace("/studies/1", f"/studies/{study_id}")
    headers = bearer(turn.token or "") if who == "segment" else person(who)
    answer = lasting_web.request(method, f"/hpo{path}", headers=headers, json={})
    if who == "segment":
        assert answer.status_code == 403
        assert answer.json() == {
            "detail": "the token of a segment is valid for requests of its agent only"
        }
    else:  # as for a study that does not exist
        assert answer.status_code == 404
        assert answer.json() == {"detail": f"there is no study with the id {study_id}"}


def test_who_may_look_may_not_change(lasting_web: TestClient, lasting: Gateway) -> None:
    study_id, _ = begin(lasting)
    changes = [
        path.replace("/studies/1", f"/studies/{study_id}")
        for method, path in OF_STUDIES
        if method == "POST"
    ]
    assert changes
    assert lasting_web.get(f"{API}/studies/{study_id}", headers=person("bob")).status_code == 200
    for path in changes:
        answer = lasting_web.post(f"/hpo{path}", headers=person("bob"), json={})
        assert answer.status_code == 403
        assert answer.json() == {"detail": "no right to change small"}
    assert lasting.ledger.get(study_id).state == "running"
    assert (
        lasting_web.post(f"{API}/studies/{study_id}/stop", headers=person("ann")).status_code
        == 200
    )
    record = lasting.ledger.get(study_id)
    assert record.state == "stopping"
    assert record.reason == "stopped by ann"


def test_a_list_shows_only_what_one_may_see(web: TestClient, services: Gateway) -> None:
    begin(services, "small")
    begin(services, "secret")

    def listed(headers: dict[str, str]) -> list[str]:
        answer = web.get(f"{API}/studies", headers=headers)
        assert answer.status_code == 200
        return [study["name"] for study in answer.json()]

    assert listed(task()) == ["secret", "small"]
    assert listed(person("ann")) == ["small"]
    assert listed(person("eve")) == []
    assert web.get(f"{API}/names/secret", headers=person("ann")).status_code == 404
    assert web.get(f"{API}/names/small", headers=person("ann")).json()["name"] == "small"


def test_studies_of_others_do_not_crowd_out_ones_own(web: TestClient, services: Gateway) -> None:
    begin(services, "small")
    begin(services, "secret")
    answer = web.get(f"{API}/studies", headers=person("ann"), params={"limit": 1})
    assert [study["name"] for study in answer.json()] == ["small"]


def test_a_segment_token_lists_no_studies(
    lasting_web: TestClient, begun: tuple[int, NextAction]
) -> None:
    _, turn = begun
    answer = lasting_web.get(f"{API}/studies", headers=bearer(turn.token or ""))
    assert answer.status_code == 403


def test_the_token_of_a_turn_is_for_its_segment(lasting_web: TestClient, lasting: Gateway) -> None:
    study_id, turn = begin(lasting)
    other = lasting.next_actions.next_action(study_id, 1, "a")
    mine, theirs = segment_of(turn), segment_of(other)
    headers = bearer(turn.token or "")
    assert lasting_web.post(f"{API}/segments/{mine}/reports", headers=headers, json=[]).is_success
    answer = lasting_web.post(f"{API}/segments/{theirs}/reports", headers=headers, json=[])
    assert answer.status_code == 403


# -- every route, for someone with a login and no right --------------------------------------

OPEN = {
    ("GET", "/studies"),
    ("GET", "/pools"),
    ("POST", "/reconcile"),
    ("GET", "/openapi.json"),
    ("GET", "/docs"),
}
"""Routes that answer everyone who has logged in, with what they may see."""


def bodies() -> dict[tuple[str, str], Any]:
    """What routes need to get as far as asking for rights."""
    trial = {"number": 0, "params": {"lr": 0.01, "width": 8}, "values": [0.5], "curve": []}
    return {
        ("POST", "/imports"): {"config": study_data(), "source": "old", "trials": [trial]},
        ("POST", "/jobs"): dict(SAMPLE),
    }


def test_who_has_no_right_on_a_dag_gets_nothing_from_any_route(services: Gateway) -> None:
    study_id, turn = begin(services)
    record, segment = services.ledger.get(study_id), segment_of(turn)
    values = {"study_id": str(study_id), "trial": "0", "number": "0", "segment": segment}
    platform = Platform(
        runs=cast(Runs, None),
        open_store=lambda: ("s3://hpo", cast(Store, None)),
        folder=Path("/nowhere"),
        runner="local",
        most_trials=9,
    )
    app = create_app(services, login=log_in, platform=platform)
    web = TestClient(app, raise_server_exceptions=False)
    query = {"capacity": 1, "key": "a", "rounds_left": 1, "dag_id": record.dag_id}
    before = everything(services.ledger)
    walked = 0
    for path, methods in app.openapi()["paths"].items():
        for method in (name.upper() for name in methods):
            route = (method, path.removeprefix("/api/v1"))
            named = re.sub(r"{(\w+)}", lambda found: values.get(found[1], record.name), path)
            answer = web.request(
                method,
                named,
                headers=person("eve"),
                params={**query, "run_id": record.run_id},
                json=bodies().get(route, []),
            )
            if route in OPEN:
                assert answer.status_code == 200, (route, answer.text)
            else:
                assert answer.status_code in (401, 403, 404), (route, answer.text)
            assert record.key not in answer.text
            assert segment not in answer.text or route[1].startswith("/segments/")
            walked += 1
    assert walked > 40
    assert everything(services.ledger) == before
