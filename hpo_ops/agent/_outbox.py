"""Messages of one segment that are not yet delivered to the gateway.

A segment is one uninterrupted execution of a trial. Messages are sent again until the gateway
accepts or refuses them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from hpo_ops.agent._curve_forecasts import Forecasts
from hpo_ops.client import (
    GatewayRefusedError,
    GatewayUnreachableError,
    SegmentGateway,
    SegmentReceipt,
)
from hpo_ops.protocol import Checkpoint, Control, Provenance, Report, SegmentResult

logger = logging.getLogger(__name__)

BATCH = 500
"""The largest number of reports in one request."""
HEARTBEAT_SECONDS = 3.0
"""Time between two heartbeats while there are no reports to send."""
MAX_DELAY_SECONDS = 5.0
"""The longest delay between two attempts to reach the gateway."""
CLOSED = "the gateway has closed this segment"
REJECTED = "the gateway rejects a message of this segment"
REFUSALS = (GatewayRefusedError, LookupError, ValueError)
"""Errors that end all sending, because another attempt would have the same result."""


class Outbox:
    """Reports and checkpoint announcements that the gateway has not accepted yet.

    If the gateway cannot be reached, attempts are repeated with growing delays. After a refusal
    no more messages are sent. Not thread-safe.

    Args:
        gateway: Client of the gateway for one segment.
        forecasts: Decides which reports may be sent now, and which forecast is sent before them.
        clock: Returns monotonic time in seconds.

    Attributes:
        reports: Reports that the gateway has not accepted yet, in order of their steps.
        refusal: Why the gateway refused a message; None if it has refused none.
        accepted_at: Monotonic time at which the gateway last accepted reports.
        retry_at: Monotonic time before which no attempt is made to reach the gateway.
    """

    def __init__(
        self, gateway: SegmentGateway, forecasts: Forecasts, *, clock: Callable[[], float]
    ) -> None:
        self._gateway = gateway
        self._forecasts = forecasts
        self._clock = clock
        self._checkpoints: list[Checkpoint] = []
        self._delay = 0.0
        self.reports: list[Report] = []
        self.refusal: str | None = None
        self.accepted_at = -math.inf
        self.retry_at = clock()
        self._heartbeat_at = self.retry_at + HEARTBEAT_SECONDS

    @property
    def room(self) -> int:
        """The number of reports that can still be added to the next request."""
        return BATCH - len(self.reports)

    @property
    def is_blocked(self) -> bool:
        """Whether nothing may be sent: a message was refused, or the next attempt is not due."""
        return self.refusal is not None or self._clock() < self.retry_at

    @property
    def has_checkpoints(self) -> bool:
        """Whether some uploaded checkpoints have not been announced to the gateway yet."""
        return bool(self._checkpoints)

    @property
    def has_work(self) -> bool:
        """Whether reports or announcements are unsent, and the gateway has refused no message."""
        return bool(self.reports or self._checkpoints) and self.refusal is None

    def announce(self, checkpoint: Checkpoint) -> None:
        """Queues the announcement that a checkpoint is complete in the store."""
        self._checkpoints.append(checkpoint)

    def send(self) -> Control | None:
        """Sends the reports, the heartbeat and the checkpoint announcements that are due.

        Returns:
            The gateway's answer to the reports or the heartbeat; None if neither was sent, or if
            the gateway did not accept them.
        """
        now = self._clock()
        is_heartbeat_due = now >= self._heartbeat_at
        if self.is_blocked or not (self.reports or is_heartbeat_due or self._checkpoints):
            return None
        answer: Control | None = None
        try:
            ready = self._forecasts.ready(self.reports)
            if ready or is_heartbeat_due:
                answer = self._send_reports(ready, now)
            while self._checkpoints:
                self._gateway.checkpoint(self._checkpoints[0])
                del self._checkpoints[0]
        except GatewayUnreachableError as error:
            self._try_later(error)
        except REFUSALS as error:
            self._give_up(error)
        else:
            self._delay = 0.0
        return answer

    def finish(self, result: SegmentResult, provenance: Provenance) -> SegmentReceipt | None:
        """Makes one attempt to send the segment's result together with the unsent reports.

        Returns:
            The gateway's receipt; None if the gateway did not accept the result.
        """
        try:
            receipt = self._gateway.finish(result, self.reports, provenance)
        except GatewayUnreachableError as error:
            self._try_later(error)
        except REFUSALS as error:
            self._give_up(error)
        else:
            self.reports = []
            return receipt
        return None

    def _send_reports(self, count: int, now: float) -> Control:
        if count and self._forecasts.made is not None:
            self._gateway.forecast(self._forecasts.made)
        answer = self._gateway.report(self.reports[:count])
        if count:
            self.accepted_at = now
        self._forecasts.sent(self.reports[:count])
        del self.reports[:count]
        self._heartbeat_at = now + HEARTBEAT_SECONDS
        return answer

    def _try_later(self, error: GatewayUnreachableError) -> None:
        self._delay = min(max(0.1, 2 * self._delay), MAX_DELAY_SECONDS)
        self.retry_at = self._clock() + self._delay
        logger.warning("cannot reach the gateway, next attempt in %.1f s: %s", self._delay, error)

    def _give_up(self, error: Exception) -> None:
        is_closed = isinstance(error, GatewayRefusedError)
        self.refusal = CLOSED if is_closed else f"{REJECTED}: {error}"
        logger.warning("nothing more is sent: %s (%s)", self.refusal, type(error).__name__)
