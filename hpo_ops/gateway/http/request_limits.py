"""Limits on requests: the size of the body, the length of the URL, the rate of each caller."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from time import monotonic

from fastapi import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive

from hpo_ops.checkpoints.code_archive import MAX_PACKED

MIB = 1 << 20
SMALL_BODY = 4 * MIB
"""Largest body in bytes of most requests, such as a study or the results of a round."""
REPORTS_BODY = 32 * MIB
"""Largest body in bytes of a request with an agent's reports or with trials to import."""
JOB_BODY = MIB
"""Largest body in bytes of a job without its code."""
ARCHIVE_BODY = MAX_PACKED + JOB_BODY
"""Largest body in bytes of a job with its code archive."""
MAX_URL = 8192
"""Largest number of characters of a URL's path and query together."""
REQUESTS_PER_SECOND = 100.0
"""Default rate limit: requests per second that each caller may send on average."""
BURST_SECONDS = 10.0
"""Burst size: a caller may send at once the requests that the rate allows in this many seconds."""
MAX_CALLERS = 10_000
"""Largest number of callers whose request rate a process tracks."""
MAX_REPORTS = 10_000
"""Largest number of reports in one request or response."""

_LARGE = re.compile(r"/segments/[^/]+/(reports|result)|/imports")


def body_limit(path: str, content_type: str) -> int:
    """Returns the largest allowed size of a request's body in bytes.

    Args:
        path: The request's path without the API's prefix.
        content_type: The request's header Content-Type.
    """
    if path == "/jobs":
        is_form = content_type.startswith("multipart/form-data")
        return ARCHIVE_BODY if is_form else JOB_BODY
    return REPORTS_BODY if _LARGE.fullmatch(path) else SMALL_BODY


def check_url(request: Request) -> None:
    """Refuses a request whose URL is too long or contains a NUL character.

    Raises:
        HTTPException: Status 414 or 422.
    """
    query = request.scope.get("query_string", b"")
    path = request.scope["path"]
    if len(path) + len(query) > MAX_URL:
        raise HTTPException(414, f"the URL is longer than {MAX_URL} characters, the maximum")
    if "\x00" in path or b"%00" in query or b"\x00" in query:
        raise HTTPException(422, "the URL has a NUL character, which is not allowed")


def check_body_headers(request: Request, most: int) -> None:
    """Refuses a request whose headers declare an encoded or too large body.

    Args:
        request: The request, whose body is not read.
        most: Largest size of the body in bytes.

    Raises:
        HTTPException: Status 400, 413 or 415.
    """
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise HTTPException(
            415, f"the header Content-Encoding is {encoding[:40]!r}, but must be identity"
        )
    length = request.headers.get("Content-Length", "0")
    if not (length.isascii() and length.isdigit()):
        raise HTTPException(400, "Content-Length must be a number")
    if len(length) > 18 or int(length) > most:
        raise _too_large(most)


def limited(receive: Receive, most: int) -> Receive:
    """Wraps the ASGI function `receive` so that a body of more than `most` bytes is refused.

    The bytes are counted as they arrive, since the header Content-Length may be wrong or missing.
    """
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
    return HTTPException(413, f"the body is larger than {most / MIB:g} MiB, the maximum")


class RateLimiter:
    """Limits the request rate of each caller by a token bucket, in the memory of one process.

    Args:
        per_second: Requests per second that a caller may send on average; 0 for no limit.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, per_second: float, *, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second * BURST_SECONDS)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> float:
        """Takes one token from a caller's bucket if the bucket has a token.

        Returns:
            0 if the caller's request is allowed; otherwise the number of seconds until a request
            is allowed again.
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
        """Removes all full buckets, which limit nothing, or all buckets if no bucket is full."""
        self._buckets = {
            caller: (filled, at)
            for caller, (filled, at) in self._buckets.items()
            if filled + (now - at) * self._per_second < self._burst
        }
        if len(self._buckets) >= MAX_CALLERS:
            self._buckets.clear()


def check_rate(limiter: RateLimiter, caller: str) -> None:
    """Counts one request of a caller, and refuses it if the caller exceeds the rate limit.

    Raises:
        HTTPException: Status 429; the header Retry-After has the seconds to wait.
    """
    wait = limiter.take(caller)
    if wait:
        raise HTTPException(
            429,
            "too many requests: try again after the seconds in the header Retry-After",
            headers={"Retry-After": str(math.ceil(wait))},
        )
