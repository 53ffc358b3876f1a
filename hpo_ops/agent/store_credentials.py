"""Credentials of the store that a pod's agent gets from the gateway and renews before expiry."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from hpo_ops.client import GatewayRefusedError, GatewayUnreachableError
from hpo_ops.client.store_session import StoreSession

if TYPE_CHECKING:
    from obstore.store import S3Credential

logger = logging.getLogger(__name__)

SESSION_VARIABLE = "HPO_STORE_SESSION"
"""Environment variable, set in a pod whose agent gets the store's credentials from the gateway."""
PATIENCE_SECONDS = 120.0
"""Time that an operation on the store waits for an unreachable gateway before it fails."""
PAUSE_SECONDS = 2.0


class SessionGateway(Protocol):
    """A client of the gateway that requests credentials of the store for one segment."""

    def store_session(self) -> StoreSession:
        """Returns new temporary credentials of the store for the segment.

        Raises:
            GatewayUnreachableError: The gateway did not answer.
            GatewayRefusedError: The gateway has closed the segment.
        """
        ...


class SessionCredentials:
    """A callable that provides the store's client with the credentials of one segment.

    The store's client calls the object before its first request, and again when the credentials
    expire in less than five minutes. While the gateway cannot be reached, and after the gateway
    has closed the segment, the last credentials are returned until they expire: the end of the
    log is uploaded after the segment has ended.

    Args:
        gateway: Requests the credentials from the gateway.
        now: Returns the current time.
        clock: Returns monotonic time in seconds.
        wait: Sleeps for the given number of seconds.
    """

    def __init__(
        self,
        gateway: SessionGateway,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._gateway = gateway
        self._now = now
        self._clock = clock
        self._wait = wait
        self._last: StoreSession | None = None
        self._lock = Lock()

    def __call__(self) -> S3Credential:
        with self._lock:
            self._last = self._renewed()
        return {
            "access_key_id": self._last.access_key_id,
            "secret_access_key": self._last.secret_access_key,
            "token": self._last.session_token,
            "expires_at": self._last.expiry,
        }

    def prepare(self) -> None:
        """Requests credentials if none were requested yet; called before the segment ends.

        The log is uploaded after the segment has ended, when the gateway no longer issues
        credentials; a short training without checkpoints has requested none until then.
        """
        if self._last is None:
            try:
                self()
            except (
                GatewayUnreachableError,
                GatewayRefusedError,
                LookupError,
                ValueError,
            ) as error:
                logger.warning(
                    "no credentials of the store; the log may not be shipped: %s", error
                )

    def _renewed(self) -> StoreSession:
        give_up_at = self._clock() + PATIENCE_SECONDS
        while True:
            try:
                return self._gateway.store_session()
            except (GatewayUnreachableError, GatewayRefusedError) as error:
                if self._last is not None and self._last.expiry > self._now():
                    return self._last
                is_refused = isinstance(error, GatewayRefusedError)
                if is_refused or self._clock() + PAUSE_SECONDS > give_up_at:
                    raise
                logger.warning("no credentials of the store from the gateway yet: %s", error)
                self._wait(PAUSE_SECONDS)
