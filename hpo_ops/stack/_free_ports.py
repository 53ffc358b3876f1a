"""Finds free TCP ports on the loopback interface."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Sequence

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Returns whether a server could listen on this port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose_port(preferred: int, *, offsets: Sequence[int] = (0,)) -> int:
    """Finds a port such that the ports at all given offsets from it are free.

    Tries ports upwards from the preferred port, then random ports.

    Args:
        preferred: The first port to try; 0 for random ports only.
        offsets: Distances from the port at which ports must be free; 0 is the port itself.

    Raises:
        OSError: No such port was found.
    """
    for port in _candidates(preferred, step=max(10, len(offsets)) if len(offsets) > 1 else 1):
        if all(is_free(port + offset) for offset in offsets):
            return port
    raise OSError(f"no free port near {preferred or 'any'} with offsets {list(offsets)}")


def _candidates(preferred: int, *, step: int) -> Iterable[int]:
    # Below the range from which the system assigns ports to outgoing connections.
    at_random = random.SystemRandom().sample(range(10_000, 22_000), 200)
    if preferred == 0:
        return at_random
    return [*range(preferred, preferred + 50 * step, step), *at_random]
