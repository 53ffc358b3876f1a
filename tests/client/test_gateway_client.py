"""The gateway's client: patient with one that is away, plain about one that refuses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from hpo_ops.client import (
    GatewayClient,
    GatewayRefusedError,
    GatewayUnreachableError,
    SegmentClient,
)
from hpo_ops.client import _gateway_client as client_http
from hpo_ops.client._gateway_client import MAX_FAILURES
from hpo_ops.client.transport import API, Transport
from hpo_ops.protocol import Action, Outcome, Report, SegmentResult

Answer = Callable[[httpx.Request], httpx.Response]


def transport(answer: Answer) -> Transport:
    mock = httpx.Client(base_url="http://gateway", transport=httpx.MockTransport(answer))
    return Transport("http://gateway", "secret", client=mock)


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        monkeypatch.setattr(client_http.time, "monotonic", lambda: self.now)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def gateway(answer: Answer, clock: Clock, patience_seconds: float = 60.0) -> GatewayClient:
    client = GatewayClient(
        "http://gateway", "secret", patience_seconds=patience_seconds, sleep=clock.sleep
    )
    client._transport = transport(answer)
    return client


def scripted(*answers: httpx.Response | Exception) -> tuple[Answer, list[httpx.Request]]:
    """Answers in turn, the last one for ever; and the requests that came."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        found = answers[min(len(requests), len(answers) - 1)]
        requests.append(request)
        if isinstance(found, Exception):
            raise found
        return found

    return answer, requests


AWAY = httpx.ConnectError("connection refused")


# -- one request -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, ValueError),
        (401, GatewayRefusedError),
        (403, GatewayRefusedError),
        (404, LookupError),
        (409, ValueError),
        (410, GatewayRefusedError),
        (413, ValueError),
        (422, ValueError),
        (429, GatewayUnreachableError),
        (500, GatewayUnreachableError),
        (502, GatewayUnreachableError),
        (503, GatewayUnreachableError),
        (504, GatewayUnreachableError),
    ],
)
def test_each_status_has_one_meaning_and_keeps_its_sentence(
    status: int, error: type[Exception]
) -> None:
    answer, _ = scripted(httpx.Response(status, json={"detail": "the reason why"}))
    with pytest.raises(error, match="the reason why"):
        transport(answer).request("GET", "/studies")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (httpx.Response(422, json={"detail": [{"msg": "too small"}]}), "too small"),
        (httpx.Response(422, json=["odd"]), "odd"),
        (httpx.Response(422, text="plain words"), "plain words"),
        (httpx.Response(422), "Unprocessable"),
    ],
)
def test_a_refusal_of_any_shape_has_words(answer: httpx.Response, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        transport(scripted(answer)[0]).request("GET", "/studies")


def test_a_busy_gateway_is_asked_again_when_it_says(clock: Clock) -> None:
    busy = httpx.Response(429, json={"detail": "slower"}, headers={"Retry-After": "7"})
    answer, requests = scripted(busy, httpx.Response(200, json=[]))
    assert gateway(answer, clock).studies() == []
    assert len(requests) == 2
    assert clock.pauses == [7.0]


def test_a_new_token_is_taken_up_and_a_made_one_is_made_for_each_request() -> None:
    renewing = httpx.Response(200, headers={"HPO-Token": "second"})
    answer, requests = scripted(renewing, httpx.Response(200))
    one = transport(answer)
    one.request("GET", "/a")
    one.request("GET", "/b")
    assert [item.headers["Authorization"] for item in requests] == [
        "Bearer secret",
        "Bearer second",
    ]
    answer, requests = scripted(httpx.Response(200))
    mock = httpx.Client(base_url="http://gateway", transport=httpx.MockTransport(answer))
    made = iter("ab")
    two = Transport("http://gateway", lambda: next(made), client=mock)
    two.request("GET", "/a")
    two.request("GET", "/b")
    assert [item.headers["Authorization"] for item in requests] == ["Bearer a", "Bearer b"]


def test_a_page_of_a_proxy_is_cut_short() -> None:
    answer, _ = scripted(httpx.Response(502, text="<html>" + "x" * 10_000))
    with pytest.raises(GatewayUnreachableError) as error:
        transport(answer).request("GET", "/studies")
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    "failure",
    [AWAY, httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("cut off"), httpx.ReadError("x")],
)
def test_no_answer_is_unreachable_and_names_the_gateway(failure: Exception) -> None:
    with pytest.raises(GatewayUnreachableError, match="http://gateway"):
        transport(scripted(failure)[0]).request("GET", "/studies")


def test_a_request_carries_its_token_and_only_given_queries() -> None:
    answer, requests = scripted(httpx.Response(200, json=[]))
    transport(answer).request("GET", "/studies", limit=5, run_id=None)
    (request,) = requests
    assert request.headers["Authorization"] == "Bearer secret"
    assert str(request.url) == f"http://gateway{API}/studies?limit=5"


def test_an_answer_without_content_is_none() -> None:
    assert transport(scripted(httpx.Response(204))[0]).request("POST", "/x") is None


# -- patience --------------------------------------------------------------------------------


def test_a_gateway_that_comes_back_is_waited_for(clock: Clock) -> None:
    busy = httpx.Response(503, json={"detail": "the database is away"})
    slow, back = httpx.ReadTimeout("slow"), httpx.Response(200, json=[])
    answer, requests = scripted(AWAY, busy, slow, back)
    assert gateway(answer, clock).studies() == []
    assert len(requests) == 4
    assert len(clock.pauses) == 3


def test_pauses_grow_but_not_without_end(clock: Clock) -> None:
    answer, _ = scripted(*[AWAY] * 12, httpx.Response(200, json=[]))
    gateway(answer, clock, patience_seconds=600).studies()
    assert clock.pauses == sorted(clock.pauses)
    assert clock.pauses[0] <= 1
    assert clock.pauses[-1] == clock.pauses[-2] == 5.0


@pytest.mark.parametrize("patience", [0.0, 10.0, 60.0])
def test_patience_ends_in_time(clock: Clock, patience: float) -> None:
    answer, requests = scripted(AWAY)
    with pytest.raises(GatewayUnreachableError, match="connection refused"):
        gateway(answer, clock, patience_seconds=patience).studies()
    assert clock.now <= patience
    assert clock.now >= patience - 5.0
    assert len(requests) == len(clock.pauses) + 1


def test_a_gateway_that_fails_again_and_again_is_given_up_soon(clock: Clock) -> None:
    answer, requests = scripted(httpx.Response(500, text="Internal Server Error"))
    with pytest.raises(GatewayUnreachableError, match="Internal Server Error"):
        gateway(answer, clock, patience_seconds=600).studies()
    assert len(requests) == MAX_FAILURES


@pytest.mark.parametrize(
    ("status", "error"), [(403, GatewayRefusedError), (404, LookupError), (422, ValueError)]
)
def test_a_clear_answer_is_not_asked_for_again(
    clock: Clock, status: int, error: type[Exception]
) -> None:
    answer, requests = scripted(httpx.Response(status, json={"detail": "no"}))
    with pytest.raises(error):
        gateway(answer, clock).studies()
    assert len(requests) == 1
    assert clock.pauses == []


# -- a real socket ---------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    seen: list[tuple[str, str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.path, self.headers["Authorization"], body))
        answer = b'{"action": "pause", "reason": "someone else is better"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def serve(port: int) -> tuple[ThreadingHTTPServer, list[tuple[str, str, bytes]]]:
    seen: list[tuple[str, str, bytes]] = []
    handler = type("SeeingHandler", (Handler,), {"seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server, seen


def test_a_task_waits_until_a_real_gateway_is_up(port: int) -> None:
    servers: list[ThreadingHTTPServer] = []

    def start_instead_of_sleeping(_: float) -> None:
        if not servers:
            servers.append(serve(port)[0])

    client = GatewayClient(f"http://127.0.0.1:{port}/", "t", sleep=start_instead_of_sleeping)
    client.stop(1, "enough")
    assert servers
    servers[0].shutdown()
    servers[0].server_close()


def test_an_agent_does_not_wait_but_tries_later(port: int) -> None:
    agent = SegmentClient(f"http://127.0.0.1:{port}", "token", "s1", timeout=5)
    with pytest.raises(GatewayUnreachableError):
        agent.report([])
    server, seen = serve(port)
    control = agent.report([Report(step=1, metrics={"loss": 0.5})])
    assert control.action is Action.PAUSE
    assert control.reason == "someone else is better"
    path, token, body = seen[-1]
    assert path == f"{API}/segments/s1/reports"
    assert token == "Bearer token"  # noqa: S105  not a secret
    assert b'"step":1' in body.replace(b" ", b"")
    server.shutdown()
    server.server_close()
    with pytest.raises(GatewayUnreachableError):
        agent.finish(SegmentResult(outcome=Outcome.COMPLETED))
