"""Messages of one segment on their way to the gateway, sent again until they are accepted."""

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
"""Reports of one request."""
HEARTBEAT_SECONDS = 3.0
"""Between two heartbeats, if there are no reports to send."""
MAX_DELAY_SECONDS = 5.0
"""Between two attempts to reach the gateway."""
CLOSED = "the gateway has closed this segment"
REJECTED = "the gateway rejects a message of this segment"
REFUSALS = (GatewayRefusedError, LookupError, ValueError)
"""Answers that another attempt would not change."""


class Outbox:
    """Reports and checkpoint announcements that the gateway has not accepted yet.

    A gateway that cannot be reached is tried again with growing delays. After a refusal nothing
    more is sent. Not thread-safe.

    Args:
        gateway: The gateway, for one segment.
        forecasts: Says which reports may be sent, and which forecast goes before them.
        clock: Monotonic time in seconds.

    Attributes:
        reports: Reports that are not accepted yet, in order.
        refusal: Why the gateway accepts nothing any more; None as long as it does.
        accepted_at: When the gateway last accepted reports.
        retry_at: When the gateway may be asked again.
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
        """How many more reports fit."""
        return BATCH - len(self.reports)

    @property
    def is_blocked(self) -> bool:
        """Whether nothing can be sent now: after a refusal, or between two attempts."""
        return self.refusal is not None or self._clock() < self.retry_at

    @property
    def has_checkpoints(self) -> bool:
        """Whether checkpoints are still to be announced."""
        return bool(self._checkpoints)

    @property
    def has_work(self) -> bool:
        """Whether something is left that could still be sent."""
        return bool(self.reports or self._checkpoints) and self.refusal is None

    def announce(self, checkpoint: Checkpoint) -> None:
        """Adds a complete checkpoint, to be announced after the reports."""
        self._checkpoints.append(checkpoint)

    def send(self) -> Control | None:
        """Sends what is due: reports, a heartbeat, announcements.

        Returns:
            The gateway's answer to reports or a heartbeat; None if it gave none.
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
        """Sends the segment's result with the last reports, once; None if it was not accepted."""
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
