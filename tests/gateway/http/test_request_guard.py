"""Attacks on the gateway's entrance: bodies before login, bodies too large, too many requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from hpo_ops.client import NextAction
from hpo_ops.client.transport import API
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http.gateway_app import create_app
from tests.gateway.http.test_authentication import ROUTES
from tests.gateway.web import bearer, begin, log_in, person, segment_of, task
from tests.servers import raw_request, served

GIB = 1 << 30
MIB = 1 << 20
SURROGATE = '"\\ud800"'
NUL = '"\\u0000"'


@pytest.fixture(scope="module")
def port(lasting: Gateway) -> Iterator[int]:
    with served(create_app(lasting, login=log_in)) as found:
        yield found


def head(method: str, path: str, who: dict[str, str] | None = None, **headers: str) -> str:
    lines = [f"{method} {path} HTTP/1.1", "Host: gateway", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in (who or {}).items()]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines) + "\r\n\r\n"


def test_a_stranger_is_turned_away_before_any_body_is_read(port: int) -> None:
    """Only the headers are sent: an answer shows that the server did not wait for the body."""
    slow = []
    for method, path, _ in ROUTES:
        if method == "POST":
            promise = head(method, f"/hpo{path}", Content_Length=str(GIB))
            if raw_request(port, promise, seconds=2.0) != 401:
                slow.append(path)
    assert slow == []


def test_a_form_with_an_archive_is_not_read_for_a_stranger(port: int) -> None:
    promise = head("POST", f"{API}/jobs", Content_Length=str(GIB)).replace(
        "application/json", "multipart/form-data; boundary=x"
    )
    part = b'--x\r\nContent-Disposition: form-data; name="code"; filename="c"\r\n\r\n' + b"a" * MIB
    assert raw_request(port, promise, part, seconds=2.0) == 401


def test_a_body_that_says_it_is_too_large_is_refused_unread(
    port: int, begun: tuple[int, NextAction]
) -> None:
    _, turn = begun
    path = f"{API}/segments/{segment_of(turn)}/reports"
    promise = head("POST", path, bearer(turn.token or ""), Content_Length=str(GIB))
    assert raw_request(port, promise, seconds=5.0) == 413


def test_a_body_that_does_not_say_how_large_it_is_is_cut_off(
    port: int, begun: tuple[int, NextAction]
) -> None:
    study_id, _ = begun
    promise = head(
        "POST", f"{API}/studies/{study_id}/config", person("ann"), Transfer_Encoding="chunked"
    )
    chunk = b"%x\r\n%s\r\n" % (MIB, b" " * MIB)
    assert raw_request(port, promise, *[chunk] * 6, b"0\r\n\r\n") == 413


def test_a_compressed_body_is_refused(
    lasting_web: TestClient, begun: tuple[int, NextAction]
) -> None:
    study_id, _ = begun
    headers = {**person("ann"), "Content-Encoding": "gzip"}
    answer = lasting_web.post(f"{API}/studies/{study_id}/config", headers=headers, content=b"x")
    assert answer.status_code == 415


def test_a_caller_who_asks_without_end_is_told_to_wait_and_others_are_not(
    lasting: Gateway, begun: tuple[int, NextAction]
) -> None:
    study_id, _ = begun
    client = TestClient(create_app(lasting, login=log_in, requests_per_second=1))
    url = f"/api/v1/studies/{study_id}/config"
    answers = [client.get(url, headers=person("ann")) for _ in range(30)]
    assert answers[0].status_code == 200
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert client.get(url, headers=person("bob")).status_code == 200


def test_as_many_requests_as_a_busy_agent_sends_are_taken(
    lasting: Gateway, begun: tuple[int, NextAction]
) -> None:
    client = TestClient(create_app(lasting, login=log_in))
    headers = person("ann")
    statuses = {client.get("/api/v1/nothing", headers=headers).status_code for _ in range(200)}
    assert statuses == {404}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/names/a%00b", None),
        ("GET", "/names/small?run_id=a%00b", None),
        ("GET", "/studies/99999999999999999999999/trials", None),
        ("GET", "/studies/ID/trials/99999999999999999999999", None),
        ("GET", "/studies/ID/events?after=99999999999999999999999", None),
        ("GET", f"/studies/{'9' * 5000}", None),
        ("POST", "/studies/ID/stop?reason=a%00b", None),
        ("POST", f"/studies/ID/stop?reason={'a' * 20_000}", None),
        ("POST", "/studies/ID/abandon", "[99999999999999999999999]"),
        ("POST", "/studies/ID/config", f"{{{NUL}: 1}}"),
        ("POST", "/studies/ID/config", f'{{"trials": {SURROGATE}}}'),
        ("POST", "/studies/ID/config", '{"trials": NaN}'),
        ("POST", "/studies/ID/config", f'{{"trials": {"[" * 900}{"]" * 900}}}'),
        ("POST", "/studies", f'{{"config": {{}}, "dag_id": {SURROGATE}, "run_id": {NUL}}}'),
        ("POST", "/studies", f'{{"config": {SURROGATE}, "dag_id": 1}}'),
        ("POST", "/studies", '{"config": NaN}'),
        ("POST", "/reconcile", f"[{NUL}, {SURROGATE}]"),
        ("POST", "/alive", f"[{NUL}]"),
        ("POST", "/alive", f"[{SURROGATE}]"),
        ("POST", "/ready", '[{"study_id": 99999999999999999999999, "trial": 0}]'),
        ("POST", "/segments/SEGMENT/reports", f'[{{"step": 1, "metrics": {{{SURROGATE}: 1}}}}]'),
        ("POST", "/segments/SEGMENT/checkpoints", '{"step": 1, "uri": "s3://x", "files": 1, '
         '"bytes": 99999999999999999999999}'),
        ("POST", "/segments/SEGMENT/checkpoints", f'{{"step": 1, "uri": {SURROGATE}, "files": 1, '
         '"bytes": 1}'),
        ("POST", "/segments/SEGMENT/checkpoints", f'{{"step": 1, "uri": {NUL}, "files": 1, '
         '"bytes": 1}'),
        ("POST", "/segments/SEGMENT/forecasts", '{"step": 1, "steps": [99999999999999999999999], '
         '"quantiles": [[1]]}'),
        ("POST", "/segments/SEGMENT/result", '{"result": {"outcome": "failed", "step": '
         "99999999999999999999999}}"),
    ],
)  # fmt: skip
def test_no_value_makes_the_gateway_fail_or_show_its_database(
    lasting_web: TestClient, lasting: Gateway, method: str, path: str, body: str | None
) -> None:
    study_id, turn = begin(lasting)
    path = path.replace("ID", str(study_id)).replace("SEGMENT", segment_of(turn))
    headers = {**task(), "Content-Type": "application/json"}
    answer = lasting_web.request(method, f"{API}{path}", headers=headers, content=body)
    assert answer.status_code < 500, answer.text
    assert not re.search(r"SELECT|INSERT|UPDATE|ledger\.|psycopg2|sqlalche|Traceback", answer.text)


def test_too_many_metrics_or_too_long_a_name_are_refused(
    lasting_web: TestClient, begun: tuple[int, NextAction]
) -> None:
    _, turn = begun
    many: dict[str, Any] = {f"m{number}": 1.0 for number in range(20_000)}
    for metrics in ({"accuracy": 1, **many}, {"accuracy": 1, "x" * 10_000: 1}):
        answer = lasting_web.post(
            f"{API}/segments/{segment_of(turn)}/reports",
            headers=bearer(turn.token or ""),
            json=[{"step": 1, "metrics": metrics}],
        )
        assert answer.status_code == 422


@pytest.mark.parametrize("path", ["/docs", "/studies", "/nothing"])
def test_answers_are_not_kept_guessed_at_or_given_scripts(
    lasting_web: TestClient, path: str
) -> None:
    answer = lasting_web.get(f"{API}{path}", headers=task())
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
