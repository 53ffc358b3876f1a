"""Limits on requests: the size of a body and of an address, and how often a caller may ask."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import monotonic

from fastapi import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive

from hpo_ops.checkpoints.code_archive import MAX_PACKED

MIB = 1 << 20
SMALL_BODY = 4 * MIB
"""For what tasks and people send: a study, the scores of a round, a change."""
REPORTS_BODY = 32 * MIB
"""For an agent's reports, and for the trials of an import."""
JOB_BODY = MIB
ARCHIVE_BODY = MAX_PACKED + JOB_BODY
MAX_ADDRESS = 8192
"""Characters of a path and its query."""
REQUESTS_PER_SECOND = 100.0
BURST_SECONDS = 10.0
"""A caller that was quiet may send as many requests at once as this long allows."""
MAX_CALLERS = 10_000
MAX_REPORTS = 10_000
"""Reports in one request or answer."""

_LARGE = re.compile(r"/segments/[^/]+/(reports|result)|/imports")


def body_limit(path: str, content_type: str) -> int:
    """The most bytes that a body may have, by its route.

    Args:
        path: The path below the API's prefix.
        content_type: The request's header.
    """
    if path == "/jobs":
        is_form = content_type.startswith("multipart/form-data")
        return ARCHIVE_BODY if is_form else JOB_BODY
    return REPORTS_BODY if _LARGE.fullmatch(path) else SMALL_BODY


def check_address(request: Request) -> None:
    """Refuses an address that is too long, or that no name or id can be read from."""
    query = request.scope.get("query_string", b"")
    path = request.scope["path"]
    if len(path) + len(query) > MAX_ADDRESS:
        raise HTTPException(414, f"the address has more than {MAX_ADDRESS} characters")
    if "\x00" in path or b"%00" in query or b"\x00" in query:
        raise HTTPException(422, "the address has a NUL in it, but must not")


def check_body_headers(request: Request, most: int) -> None:
    """Refuses a body by what its headers say, before any of it is read."""
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise HTTPException(415, f"the body is encoded as {encoding[:40]!r}, but must be plain")
    length = request.headers.get("Content-Length", "0")
    if not (length.isascii() and length.isdigit()):
        raise HTTPException(400, "Content-Length must be a number")
    if len(length) > 18 or int(length) > most:
        raise _too_large(most)


def limited(receive: Receive, most: int) -> Receive:
    """Reads a body as it comes, and stops at a size, whatever its headers said."""
    seen = 0

    async def read() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > most:
                raise _too_large(most)
        return message

    return read


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {most / MIB:g} MiB, which is the most")


class RateLimiter:
    """A token bucket for each caller, in the memory of this process.

    Args:
        per_second: Requests a second that a caller may send on average; 0 for any number.
        clock: Seconds that only grow.
    """

    def __init__(self, per_second: float, *, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second * BURST_SECONDS)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> float:
        """Takes one request from a caller's bucket.

        Returns:
            0 if the request may go on, otherwise the seconds to wait before the next one.
        """
        if self._per_second <= 0:
            return 0.0
        now = self._clock()
        filled, at = self._buckets.get(caller, (self._burst, now))
        filled = min(self._burst, filled + (now - at) * self._per_second)
        if filled < 1:
            self._buckets[caller] = (filled, now)
            return (1 - filled) / self._per_second
        if caller not in self._buckets and len(self._buckets) >= MAX_CALLERS:
            self._forget(now)
        self._buckets[caller] = (filled - 1, now)
        return 0.0

    def _forget(self, now: float) -> None:
        """Forgets callers whose bucket is full again; if there are none, all of them."""
        self._buckets = {
            caller: (filled, at)
            for caller, (filled, at) in self._buckets.items()
            if filled + (now - at) * self._per_second < self._burst
        }
        if len(self._buckets) >= MAX_CALLERS:
            self._buckets.clear()
