"""The gateway as an agent sees it: a port, which tests implement without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hpo_ops.client._trial_results import TrialResult
from hpo_ops.protocol import (
    Checkpoint,
    Control,
    CurveForecast,
    Message,
    Provenance,
    Report,
    SegmentResult,
)


@dataclass(frozen=True, kw_only=True)
class SegmentReceipt(Message):
    """The gateway's answer to a segment's result.

    Attributes:
        result: The result on record, which may be an earlier one: the first result counts.
        score: How the trial ended, if it has finished with this segment.
    """

    result: SegmentResult
    score: TrialResult | None = None


class SegmentGateway(Protocol):
    """Calls of an agent to the gateway, about the one segment that its token is for.

    Every call is idempotent and raises `GatewayUnreachableError` or `GatewayRefusedError`.
    """

    def report(self, reports: Sequence[Report]) -> Control:
        """Sends reports, or a heartbeat without any; returns the requested action."""
        ...

    def curve(self) -> list[tuple[int, float]]:
        """The trial's learning curve so far, including that of earlier segments."""
        ...

    def forecast(self, forecast: CurveForecast) -> None:
        """Sends a forecast; must be called before the report of the forecast's step."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Announces that a checkpoint is complete in the store."""
        ...

    def finish(
        self,
        result: SegmentResult,
        reports: Sequence[Report] = (),
        provenance: Provenance | None = None,
    ) -> SegmentReceipt:
        """Sends how the segment ended, with its last reports and its provenance.

        The first result of a segment counts; the receipt has the one on record.
        """
        ...
