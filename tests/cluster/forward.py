"""Lets pods reach a server that listens on loopback only, through the bridge's address."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CHUNK = 1 << 16


class Valve:
    """Holds back what passes, as a server that hangs does; open at first."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._is_open.set()

    def close(self) -> None:
        """Lets nothing pass any more; connections stay."""
        self._is_open.clear()

    def open(self) -> None:
        """Lets pass what was held back, and what comes."""
        self._is_open.set()

    def wait(self) -> None:
        """Returns when it is open."""
        self._is_open.wait()


@contextmanager
def forwarded(
    port: int, *, address: str, listen: int | None = None, valve: Valve | None = None
) -> Iterator[int]:
    """Passes on connections to an address of this machine to a port on loopback.

    Args:
        port: Where the server listens on 127.0.0.1.
        address: Where pods reach this machine.
        listen: The port at that address: the same one where it is not given, 0 for a free one.
        valve: Holds back what passes while it is closed.

    Yields:
        The port at that address.
    """
    valve = valve or Valve()
    with socket.create_server((address, port if listen is None else listen)) as listener:
        threading.Thread(target=_accept, args=(listener, port, valve), daemon=True).start()
        yield listener.getsockname()[1]
        # Wakes the thread, which a mere close would not.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        valve.open()


def _accept(listener: socket.socket, port: int, valve: Valve) -> None:
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
            threading.Thread(target=_copy, args=(source, target, valve), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket, valve: Valve) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            valve.wait()
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
