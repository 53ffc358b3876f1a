"""The gateway over HTTP: who gets in, what a mistake is answered with, and a whole life."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, cast

import jwt
import optuna
import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError
from starlette.routing import BaseRoute

from hpo_ops.client import (
    GatewayClient,
    GatewayRefusedError,
    GatewayUnreachableError,
    SegmentClient,
    StudyRequest,
    Turn,
    TurnKind,
    VerdictKind,
)
from hpo_ops.client.http import API, Transport
from hpo_ops.core import TrialState
from hpo_ops.gateway.app import create_app
from hpo_ops.gateway.routes import MAX_REPORTS
from hpo_ops.gateway.studies import Studies
from hpo_ops.gateway.tokens import AUDIENCE, issue_segment_token, issue_service_token
from hpo_ops.ledger import Ledger
from hpo_ops.ledger.leases import set_capacity
from hpo_ops.protocol import Action, Checkpoint, Outcome, Report, Result
from tests.studies import study_data

SECRET = "s" * 32
"""The secret of the `studies` fixture."""


# -- who may come in -------------------------------------------------------------------------


@dataclass(frozen=True)
class Person:
    name: str
    reads: frozenset[str] = frozenset()
    edits: frozenset[str] = frozenset()

    def may_read(self, dag_id: str) -> bool:
        return dag_id in self.reads

    def may_edit(self, dag_id: str) -> bool:
        return dag_id in self.edits


PEOPLE = {
    person.name: person
    for person in (
        Person("ann", reads=frozenset({"small"}), edits=frozenset({"small"})),
        Person("bob", reads=frozenset({"small"})),
        Person("eve"),
    )
}


async def log_in(request: Request) -> Person:
    name = request.headers.get("Authorization", "").removeprefix("Bearer person ")
    if name not in PEOPLE:
        raise HTTPException(401, "log in first")
    return PEOPLE[name]


@cache
def without_ledger(*, has_login: bool = True) -> TestClient:
    """A gateway that turns people away before it touches a ledger."""
    studies = Studies(cast(Ledger, None), SECRET)
    return TestClient(create_app(studies, login=log_in if has_login else None))


def routes() -> list[tuple[str, str, list[str]]]:
    """Every method and path that the app answers, with the tags of its route."""
    app = create_app(Studies(cast(Ledger, None), SECRET), login=log_in)

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


def mounted(studies: Studies) -> TestClient:
    """The gateway as Airflow mounts it; nobody is logged in."""
    outer = FastAPI()
    outer.mount("/hpo", create_app(studies, login=log_in))
    return TestClient(outer, raise_server_exceptions=False)


@pytest.fixture
def web(studies: Studies) -> TestClient:
    return mounted(studies)


@pytest.fixture(scope="module")
def lasting(postgres: URL) -> Iterator[Studies]:
    """One ledger for all tests that need no fresh one."""
    admin = create_engine(postgres, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text("CREATE DATABASE lasting_gateway"))
    url = postgres.set(database="lasting_gateway")
    ledger = Ledger.open(url.render_as_string(hide_password=False))
    with ledger.engine.begin() as connection:
        set_capacity(connection, "local", 1000)
    yield Studies(ledger, SECRET)
    ledger.engine.dispose()
    with admin.connect() as connection:
        connection.execute(text("DROP DATABASE lasting_gateway WITH (FORCE)"))
    admin.dispose()


@pytest.fixture(scope="module")
def lasting_web(lasting: Studies) -> TestClient:
    return mounted(lasting)


@pytest.fixture(scope="module")
def begun(lasting: Studies) -> tuple[int, Turn]:
    """A study that tests look at and leave as it is."""
    return begin(lasting)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def person(name: str) -> dict[str, str]:
    return bearer(f"person {name}")


def task() -> dict[str, str]:
    return bearer(issue_service_token(SECRET))


def begin(studies: Studies, name: str = "small") -> tuple[int, Turn]:
    """A new study with its first trial running."""
    request = StudyRequest(config=study_data(name=name), dag_id=name, run_id=uuid.uuid4().hex)
    study_id = studies.start(request).id
    studies.sample(study_id, 0)
    turn = studies.turn(study_id, 0, "a")
    assert turn.kind is TurnKind.RUN
    return study_id, turn


def segment_of(turn: Turn) -> str:
    assert turn.assignment is not None
    return turn.assignment.segment


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
    secret = changes.pop("secret", SECRET)
    claims = {
        "kind": "service",
        "sub": "tasks",
        "aud": AUDIENCE,
        "exp": datetime.now(UTC) + timedelta(hours=1),
        **changes,
    }
    kept = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(kept, secret, algorithm="HS256" if secret else "none")


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": datetime.now(UTC) - timedelta(seconds=1)},
        {"exp": None},
        {"secret": "x" * 32},
        {"secret": None},
        {"aud": "airflow"},
        {"aud": None},
        {"kind": "admin"},
        {"kind": None},
        {"sub": None},
    ],
    ids=["expired", "endless", "forged", "unsigned", "elsewhere", "anywhere", "kind", "no", "who"],
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
    assert answer.json() == {"detail": "only the tasks of a study may do this"}


@pytest.mark.parametrize(("method", "path"), AGENTS)
@pytest.mark.parametrize("who", ["another segment", "ann"])
def test_a_segment_is_for_its_own_token_only(method: str, path: str, who: str) -> None:
    client = without_ledger()
    headers = person(who) if who == "ann" else bearer(issue_segment_token(SECRET, "2"))
    answer = client.request(method, path, headers=headers, json=[])
    assert answer.status_code == 403
    assert answer.json() == {"detail": "this token is not for segment 1"}


@pytest.mark.parametrize(("method", "path"), OF_STUDIES)
@pytest.mark.parametrize("who", ["segment", "eve"])
def test_a_study_is_shown_to_those_with_the_right_only(
    lasting_web: TestClient, begun: tuple[int, Turn], method: str, path: str, who: str
) -> None:
    study_id, turn = begun
    path = path.replace("/studies/1", f"/studies/{study_id}")
    headers = bearer(turn.token or "") if who == "segment" else person(who)
    answer = lasting_web.request(method, f"/hpo{path}", headers=headers, json={})
    assert answer.status_code == 403
    assert answer.json()["detail"] in ("no right to see small", "no right to change small")


def test_who_may_look_may_not_change(lasting_web: TestClient, lasting: Studies) -> None:
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


def test_a_list_shows_only_what_one_may_see(web: TestClient, studies: Studies) -> None:
    begin(studies, "small")
    begin(studies, "secret")

    def listed(headers: dict[str, str]) -> list[str]:
        answer = web.get(f"{API}/studies", headers=headers)
        assert answer.status_code == 200
        return [study["name"] for study in answer.json()]

    assert listed(task()) == ["secret", "small"]
    assert listed(person("ann")) == ["small"]
    assert listed(person("eve")) == []
    assert web.get(f"{API}/names/secret", headers=person("ann")).status_code == 403
    assert web.get(f"{API}/names/small", headers=person("ann")).json()["name"] == "small"


def test_studies_of_others_do_not_crowd_out_ones_own(web: TestClient, studies: Studies) -> None:
    begin(studies, "small")
    begin(studies, "secret")
    answer = web.get(f"{API}/studies", headers=person("ann"), params={"limit": 1})
    assert [study["name"] for study in answer.json()] == ["small"]


def test_a_segment_token_lists_no_studies(
    lasting_web: TestClient, begun: tuple[int, Turn]
) -> None:
    _, turn = begun
    answer = lasting_web.get(f"{API}/studies", headers=bearer(turn.token or ""))
    assert answer.status_code == 403


def test_the_token_of_a_turn_is_for_its_segment(lasting_web: TestClient, lasting: Studies) -> None:
    study_id, turn = begin(lasting)
    other = lasting.turn(study_id, 1, "a")
    mine, theirs = segment_of(turn), segment_of(other)
    headers = bearer(turn.token or "")
    assert lasting_web.post(f"{API}/segments/{mine}/reports", headers=headers, json=[]).is_success
    answer = lasting_web.post(f"{API}/segments/{theirs}/reports", headers=headers, json=[])
    assert answer.status_code == 403


# -- mistakes and their answers --------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "sentence"),
    [
        ("GET", "/studies/99", 404, "there is no study with the id 99"),
        ("GET", "/studies/99999999999999999999", 404, "there is no study with the id 9999"),
        ("GET", "/names/none", 404, "there is no study none"),
        ("GET", "/names/small?run_id=x", 404, "there is no study small with the run x"),
        ("POST", "/studies/99/verdict", 404, "there is no study with the id 99"),
        ("POST", "/studies/1/trials/99/turn?key=a", 404, "has no trial 99"),
        ("POST", "/segments/none/reports", 404, "there is no segment none"),
        ("GET", "/studies/x", 422, "valid integer"),
        ("GET", "/studies?limit=0", 422, "greater than or equal to 1"),
        ("GET", "/studies?limit=1000000", 422, "less than or equal to"),
        ("GET", "/nothing", 404, "Not Found"),
    ],
)
def test_a_mistake_is_answered_with_a_status_and_a_sentence(
    lasting_web: TestClient,
    begun: tuple[int, Turn],
    method: str,
    path: str,
    status: int,
    sentence: str,
) -> None:
    study_id, _ = begun
    path = path.replace("/studies/1/", f"/studies/{study_id}/")
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
    lasting_web: TestClient, lasting: Studies, body: object, status: int
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


def test_as_many_reports_as_allowed_are_taken(lasting_web: TestClient, lasting: Studies) -> None:
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
    lasting_web: TestClient, begun: tuple[int, Turn], part: str, body: dict[str, Any]
) -> None:
    _, turn = begun
    path = f"{API}/segments/{segment_of(turn)}/{part}"
    answer = lasting_web.post(path, headers=bearer(turn.token or ""), json=body)
    assert answer.status_code == 422


def test_a_result_whose_reason_holds_anything_is_absorbed(
    lasting_web: TestClient, lasting: Studies
) -> None:
    study_id, turn = begin(lasting)
    body = {"outcome": "failed", "reason": f"exit code 1: binary {NUL} on the last line"}
    path = f"{API}/segments/{segment_of(turn)}/result"
    assert lasting_web.post(path, headers=bearer(turn.token or ""), json=body).status_code == 200
    assert lasting.turn(study_id, 0, "b").kind is TurnKind.DONE


def test_a_segment_that_is_over_is_gone_but_may_say_so_again(
    lasting_web: TestClient, lasting: Studies
) -> None:
    _, turn = begin(lasting)
    path, headers = f"{API}/segments/{segment_of(turn)}", bearer(turn.token or "")
    result = {"outcome": "stopped", "step": 3, "reason": "told to"}
    for _ in range(2):
        assert lasting_web.post(f"{path}/result", headers=headers, json=result).status_code == 200
    answer = lasting_web.post(f"{path}/reports", headers=headers, json=[])
    assert answer.status_code == 410
    assert answer.json() == {"detail": f"segment {segment_of(turn)} is over"}
    checkpoint = {"step": 3, "uri": "s3://x", "files": 1, "bytes": 1}
    answer = lasting_web.post(f"{path}/checkpoints", headers=headers, json=checkpoint)
    assert answer.status_code == 410


def test_a_database_that_is_away_is_answered_with_try_later(
    lasting_web: TestClient, lasting: Studies, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("SELECT 1", {}, Exception("server closed the connection"))

    monkeypatch.setattr(Ledger, "get", fail)
    assert lasting_web.get(f"{API}/studies/1", headers=task()).status_code == 503


def test_every_route_is_described_in_the_openapi_page(lasting: Studies) -> None:
    app = create_app(lasting)
    described = app.openapi()["paths"]
    for route in app.routes:
        if isinstance(route, APIRoute):
            for method in route.methods:
                entry = described[route.path_format][method.lower()]
                assert entry["description"].strip().endswith(".")


# -- a whole life over HTTP ------------------------------------------------------------------


def gateway(web: TestClient, token: str) -> GatewayClient:
    """The tasks' and people's client, on the app itself instead of a network."""
    client = GatewayClient("http://gateway", token)
    client._transport = Transport("http://gateway", token, client=fresh(web))
    return client


def agent(web: TestClient, turn: Turn) -> SegmentClient:
    assert turn.token is not None
    client = SegmentClient("http://gateway", turn.token, segment_of(turn))
    client._transport = Transport("http://gateway", turn.token, client=fresh(web))
    return client


def fresh(web: TestClient) -> TestClient:
    """A client with headers of its own."""
    return TestClient(web.app, raise_server_exceptions=False)


def train(web: TestClient, turn: Turn, value: float) -> None:
    assert turn.assignment is not None
    assert turn.assignment.until_step is not None
    me, step, action = agent(web, turn), turn.assignment.from_step, Action.CONTINUE
    while step < turn.assignment.until_step and action is Action.CONTINUE:
        step += 1
        reports = [Report(step=step, metrics={"accuracy": value + step / 1000}, seconds=0.1)]
        action = me.report(reports).action
        uri = f"s3://x/{turn.assignment.trial}/{step}"
        me.checkpoint(Checkpoint(step=step, uri=uri, files=1, bytes=9))
    outcome = Outcome.COMPLETED if action is Action.CONTINUE else Outcome.STOPPED
    me.finish(Result(outcome=outcome, step=step))


def test_a_study_lives_its_whole_life_over_http(
    web: TestClient, studies: Studies, database: str
) -> None:
    tasks = gateway(web, issue_service_token(SECRET))
    request = StudyRequest(config=study_data(), dag_id="small", run_id="run-1")
    study = tasks.start_study(request)
    assert tasks.start_study(request) == study

    scores = []
    for number in range(10):
        group = tasks.sample(study.id, number, rounds_left=10 - number)
        round_scores = []
        for member in group.members:
            turn = tasks.turn(study.id, member["trial"], key=f"{number}")
            while turn.kind is TurnKind.RUN:
                train(web, turn, value=member["params"]["lr"])
                turn = tasks.turn(study.id, member["trial"], key=f"{number} again")
            assert turn.score is not None
            round_scores.append(turn.score)
        tasks.collect(study.id, number, round_scores)
        scores += round_scores
        if tasks.verdict(study.id).kind is VerdictKind.STOP:
            break
    tasks.end_study(study.id, {"note": "done"})

    ann = gateway(web, "person ann")
    progress = ann.find("small")
    assert progress == ann.progress(study.id)
    assert progress.state == "ended"
    assert sum(progress.counts.values()) == progress.trials == 6
    assert {score.state for score in scores} <= {TrialState.COMPLETED, TrialState.PRUNED}
    trials = ann.trials(study.id)
    assert [trial.trial for trial in trials] == list(range(6))
    best = ann.best(study.id)
    assert best is not None
    assert best.value == max(trial.value for trial in trials if trial.value is not None)
    assert best.checkpoint_uri == f"s3://x/{best.trial}/{best.step}"
    assert (best.trial, best.step) in ann.kept_checkpoints(study.id)
    seen = optuna.load_study(study_name=study.key, storage=database).trials
    assert [trial.params for trial in seen] == [trial.params for trial in trials]
    assert all(trial.state.is_finished() for trial in seen)


def test_history_can_be_read_in_pages(lasting_web: TestClient, lasting: Studies) -> None:
    study_id, _ = begin(lasting)
    bob = gateway(lasting_web, "person bob")
    whole = bob.events(study_id)
    ids = [event["id"] for event in whole]
    assert ids == sorted(ids)
    pages, after = [], 0
    while page := bob.events(study_id, after=after, limit=2):
        assert len(page) <= 2
        pages += page
        after = page[-1]["id"]
    assert pages == whole


def test_the_client_says_what_a_refusal_means(lasting_web: TestClient, lasting: Studies) -> None:
    study_id, turn = begin(lasting)
    tasks, eve = (
        gateway(lasting_web, issue_service_token(SECRET)),
        gateway(lasting_web, "person eve"),
    )
    with pytest.raises(LookupError, match="there is no study none"):
        tasks.find("none")
    with pytest.raises(GatewayRefusedError, match="no right to see small"):
        eve.progress(study_id)
    with pytest.raises(GatewayRefusedError, match="log in first"):
        gateway(lasting_web, "nonsense").progress(study_id)
    bad = StudyRequest(config=study_data(trials=0), dag_id="small", run_id="r2")
    with pytest.raises(ValueError, match="trials is 0, but must be 1 or more"):
        tasks.start_study(bad)
    me = agent(lasting_web, turn)
    me.finish(Result(outcome=Outcome.STOPPED, step=0))
    with pytest.raises(GatewayRefusedError, match="is over"):
        me.report([])


def test_a_failure_inside_is_tried_a_few_times_only(
    lasting_web: TestClient, lasting: Studies, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail(*_: object, **__: object) -> None:
        calls.append(1)
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(Ledger, "get", fail)
    tasks = gateway(lasting_web, issue_service_token(SECRET))
    tasks._sleep = lambda _: None
    with pytest.raises(GatewayUnreachableError):
        tasks.progress(1)
    assert 1 < len(calls) < 10
