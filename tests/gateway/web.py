"""The gateway as a web app, and those who come to it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

from hpo_ops.client import (
    GatewayClient,
    NextAction,
    NextActionKind,
    SegmentClient,
    StudyRequest,
)
from hpo_ops.client.token_signing import KeyRing
from hpo_ops.client.transport import Transport
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.gateway.tokens import issue_service_token
from tests.studies import study_data

SECRET = KeyRing.parse(f"test:{'s' * 32}")
"""The signing keys of the `services` fixture."""


@dataclass(frozen=True)
class Person:
    name: str
    reads: frozenset[str] = frozenset()
    edits: frozenset[str] = frozenset()
    is_operator: bool = False

    def may_read(self, dag_id: str) -> bool:
        return dag_id in self.reads

    def may_edit(self, dag_id: str) -> bool:
        return dag_id in self.edits

    def may_start(self, dag_id: str) -> bool:
        return dag_id in self.edits

    def may_operate(self) -> bool:
        return self.is_operator


GENERIC = frozenset({"hpo_study"})
PEOPLE = {
    person.name: person
    for person in (
        Person("ann", reads=frozenset({"small"}), edits=frozenset({"small"})),
        Person("bob", reads=frozenset({"small"})),
        Person("eve"),
        Person("mia", reads=GENERIC, edits=GENERIC),
        Person("max", reads=GENERIC, edits=GENERIC),
        Person("ops", reads=GENERIC, edits=GENERIC, is_operator=True),
    )
}


async def log_in(request: Request) -> Person:
    name = request.headers.get("Authorization", "").removeprefix("Bearer person ")
    if name not in PEOPLE:
        raise HTTPException(401, "log in first")
    return PEOPLE[name]


def mounted(services: Gateway) -> TestClient:
    """The gateway as Airflow mounts it; nobody is logged in."""
    outer = FastAPI()
    outer.mount("/hpo", create_app(services, login=log_in))
    return TestClient(outer, raise_server_exceptions=False)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def person(name: str) -> dict[str, str]:
    return bearer(f"person {name}")


def task() -> dict[str, str]:
    return bearer(issue_service_token(SECRET))


def begin(services: Gateway, name: str = "small") -> tuple[int, NextAction]:
    """A new study with its first trial running."""
    request = StudyRequest(config=study_data(name=name), dag_id=name, run_id=uuid.uuid4().hex)
    study_id = services.studies.start(request).id
    services.rounds.sample(study_id, 0)
    turn = services.next_actions.next_action(study_id, 0, "a")
    assert turn.kind is NextActionKind.RUN
    return study_id, turn


def segment_of(turn: NextAction) -> str:
    assert turn.assignment is not None
    return turn.assignment.segment


def gateway(web: TestClient, token: str) -> GatewayClient:
    """The tasks' and people's client, on the app itself instead of a network."""
    client = GatewayClient("http://gateway", token)
    client._transport = Transport("http://gateway", token, client=fresh(web))
    return client


def agent(web: TestClient, turn: NextAction) -> SegmentClient:
    assert turn.token is not None
    client = SegmentClient("http://gateway", turn.token, segment_of(turn))
    client._transport = Transport("http://gateway", turn.token, client=fresh(web))
    return client


def fresh(web: TestClient) -> TestClient:
    """A client with headers of its own."""
    return TestClient(web.app, raise_server_exceptions=False)
