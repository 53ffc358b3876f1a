"""The store's credentials for the agent of a pod: from the gateway, renewed before they expire."""

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
"""Set in a pod whose agent gets the store's credentials from the gateway."""
PATIENCE_SECONDS = 120.0
"""How long to wait for the gateway before an operation on the store fails."""
PAUSE_SECONDS = 2.0


class SessionGateway(Protocol):
    """Issues credentials for one segment."""

    def store_session(self) -> StoreSession:
        """New credentials; raises `GatewayUnreachableError` or `GatewayRefusedError`."""
        ...


class SessionCredentials:
    """The credentials of one segment, as a callable for the store's client.

    The client calls it before the first request, and again when less than five minutes are left.
    While the gateway cannot be reached, and after it has closed the segment, the last credentials
    are used until they expire: the end of the log is shipped after the segment has ended.

    Args:
        gateway: Issues the credentials.
        now: The current time.
        clock: Monotonic time in seconds.
        wait: Waits for some seconds.
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
        """Gets credentials while the segment is open, if none were needed so far.

        A short training may save no checkpoint. Its log is shipped after the segment has ended,
        when the gateway no longer issues credentials.
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
