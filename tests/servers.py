"""The gateway behind a real HTTP server, as agents and attackers meet it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from hpo_ops.client.transport import PREFIX


@contextmanager
def served(gateway: FastAPI) -> Iterator[int]:
    """Serves the gateway as Airflow mounts it, on a free port of the loopback interface."""
    outer = FastAPI(openapi_url=None)
    outer.mount(PREFIX, gateway)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(outer, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    server.force_exit = True
    thread.join(timeout=10)
    listening.close()


def raw_request(port: int, head: str, *body: bytes, seconds: float = 20.0) -> int | None:
    """Sends bytes to a server, and returns the status of its answer; None if there is none."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(head.encode())
        try:
            for part in body:
                connection.sendall(part)
        except OSError:
            pass  # the server has answered and hung up
        try:
            first = connection.recv(64)
        except TimeoutError:
            return None
    return int(first.split()[1]) if first else None
