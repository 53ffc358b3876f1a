"""What is taken for healthy, told by a server that answers as an api-server does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from hpo_ops.stack import Part
from hpo_ops.stack._airflow_health import find_healthy


class Airflow(BaseHTTPRequestHandler):
    """An api-server with or without the gateway."""

    gateway_status = 401

    def do_GET(self) -> None:
        if self.path.startswith("/hpo/"):
            self.send_response(self.gateway_status)
            self.end_headers()
            return
        now = datetime.now(UTC).isoformat()
        body = {
            "metadatabase": {"status": "healthy"},
            "scheduler": {"status": "healthy", "latest_scheduler_heartbeat": now},
            "triggerer": {"status": "unhealthy", "latest_triggerer_heartbeat": now},
        }
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Airflow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_parts_with_a_fresh_heartbeat_are_healthy(url: str) -> None:
    assert find_healthy(url, since={}) == {Part.API_SERVER, Part.SCHEDULER}


def test_a_heartbeat_of_the_process_before_proves_nothing(url: str) -> None:
    assert find_healthy(url, since={Part.SCHEDULER: 4e9}) == {Part.API_SERVER}


def test_an_api_server_without_the_gateway_is_not_healthy(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Airflow, "gateway_status", 200)
    assert find_healthy(url, since={}) == {Part.SCHEDULER}
