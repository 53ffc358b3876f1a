"""Lets pods reach a server that listens on loopback only, through the bridge's address."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CHUNK = 1 << 16


@contextmanager
def forwarded(port: int, *, address: str) -> Iterator[int]:
    """Passes on connections to an address of this machine to a port on loopback.

    Args:
        port: Where the server listens on 127.0.0.1.
        address: Where pods reach this machine.

    Yields:
        The port at that address: the same one.
    """
    with socket.create_server((address, port)) as listener:
        threading.Thread(target=_accept, args=(listener, port), daemon=True).start()
        yield port
        # Wakes the thread, which a mere close would not.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, port: int) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        try:
            server = socket.create_connection(("127.0.0.1", port), timeout=10)
        except OSError:
            client.close()
            continue
        server.settimeout(None)
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
