"""A gateway on a real PostgreSQL, with callers of every kind, as a target of fuzzing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import requests
from fastapi import HTTPException, Request
from fastapi.testclient import TestClient
from hypothesis.errors import InvalidArgument
from obstore.store import MemoryStore
from schemathesis import Case
from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from hpo_ops.client.token_signing import TaskIdentity, parse_task_key, sign_task_token
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.gateway.services.job_submission import Platform
from hpo_ops.ledger import Ledger
from hpo_ops.ledger.leases import set_capacity
from tests.databases import fresh_database
from tests.gateway.services.test_job_submission import FakeRuns
from tests.gateway.web import SECRET, Person, bearer, begin, person, segment_of, task

LEAKS = ("Traceback (most recent call last)", 'File "/', "psycopg2", "sqlalchemy", "[SQL:")
"""Text of our own insides, which no answer has."""
HOST = "http://gateway"


_DAGS = frozenset({"small", "hpo_study", "hpo_pod_study", "hpo_reconcile"})
PEOPLE = {
    "owner": Person("owner", reads=_DAGS, edits=_DAGS),
    "viewer": Person("viewer", reads=_DAGS),
    "stranger": Person("stranger"),
}


async def log_in(request: Request) -> Person:
    name = request.headers.get("Authorization", "").removeprefix("Bearer person ")
    if name not in PEOPLE:
        raise HTTPException(401, "log in first")
    return PEOPLE[name]


@dataclass(frozen=True)
class Target:
    """A gateway with two running studies, and the credentials of its callers."""

    services: Gateway
    web: TestClient
    known: dict[str, Any]
    callers: dict[str, dict[str, str]]

    def send(self, case: Case, caller: str) -> str:
        """Sends a request and returns its status; fails where the answer tells of our insides."""
        try:
            prepared = requests.Request(**case.as_transport_kwargs(base_url=HOST)).prepare()
        except (requests.RequestException, ValueError, InvalidArgument):
            return "not HTTP"
        body = prepared.body
        answer = self.web.request(
            cast(str, prepared.method),
            cast(str, prepared.url),
            content=body if isinstance(body, bytes) else (body or "").encode("utf-8", "replace"),
            headers={**_sendable(prepared.headers), **self.callers[caller]},
        )
        return self.judge(answer, caller)

    def judge(self, answer: httpx.Response, caller: str) -> str:
        """The status of an answer; fails where it tells of our insides."""
        assert answer.status_code < 500, f"{caller}: {answer.status_code} {answer.text}"
        for leak in LEAKS:
            assert leak not in answer.text, f"{caller}: {answer.status_code} {answer.text}"
        if answer.status_code in (307, 404, 405) and answer.text in _NO_ROUTE:
            return "no route"
        return str(answer.status_code)

    def contents(self) -> list[tuple[str, int]]:
        """A fingerprint of every table."""
        with self.services.ledger.engine.connect() as connection:
            return [(name, _fingerprint(connection, name)) for name in _tables(connection)]


_NO_ROUTE = {"", '{"detail":"Not Found"}', '{"detail":"Method Not Allowed"}'}
"""Starlette's own answers, where a generated path is none of ours."""


def _sendable(headers: Any) -> dict[str, str]:
    left = {"authorization", "content-length", "accept-encoding"}
    return {
        name: value.encode("latin-1", "replace").decode("latin-1")
        for name, value in headers.items()
        if name.lower() not in left and isinstance(value, str)
    }


def _tables(connection: Connection) -> list[str]:
    query = text(
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
        "WHERE schemaname IN ('ledger', 'public') ORDER BY 1"
    )
    return list(connection.execute(query).scalars())


def _fingerprint(connection: Connection, table: str) -> int:
    query = f"SELECT coalesce(sum(hashtextextended(t::text, 0)), 0) FROM {table} t"  # noqa: S608
    return int(connection.execute(text(query)).scalar_one())


@pytest.fixture(scope="module")
def target(
    postgres: URL, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    with fresh_database(postgres, template) as address:
        ledger = Ledger.open(address)
        with ledger.engine.begin() as connection:
            set_capacity(connection, "local", 1000)
        services = Gateway.on_ledger(ledger, SECRET)
        app = create_app(
            services,
            login=log_in,
            platform=_platform(tmp_path_factory.mktemp("code")),
            requests_per_second=0,
        )
        study_id, turn = begin(services)
        _, other = begin(services)
        known = {
            "study_id": study_id,
            "segment": segment_of(turn),
            "trial": 0,
            "number": 0,
            "name": "small",
        }
        callers = {
            "nobody": {},
            "stranger": person("stranger"),
            "viewer": person("viewer"),
            "another agent": bearer(other.token or ""),
            "another task": bearer(_another_task()),
            "agent": bearer(turn.token or ""),
            "owner": person("owner"),
            "task": task(),
        }
        with TestClient(
            app, raise_server_exceptions=False, base_url=HOST, follow_redirects=False
        ) as web:
            yield Target(services, web, known, callers)
        ledger.engine.dispose()


def _another_task() -> str:
    """The token of a task of another DAG run, made with the key that tasks hold."""
    task = TaskIdentity(dag_id="other", run_id="other", task_id="trial", map_index=0)
    return sign_task_token(parse_task_key(SECRET.task_key()), task)


def _platform(folder: Path) -> Platform:
    store = MemoryStore()
    return Platform(
        runs=FakeRuns(),
        open_store=lambda: ("s3://hpo", store),
        folder=folder,
        runner="local",
        most_trials=1024,
    )
