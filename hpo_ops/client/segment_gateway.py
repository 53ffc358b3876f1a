"""The gateway's HTTP client: for tasks and the CLI, and for agents with a token of one segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hpo_ops.client.trial_results import TrialResult
from hpo_ops.protocol import (
    Checkpoint,
    Control,
    CurveForecast,
    Message,
    Provenance,
    Report,
    SegmentResult,
)


class GatewayUnreachableError(ConnectionError):
    """The gateway did not answer, or not in a way that settles the matter: try again later."""


class GatewayFailedError(GatewayUnreachableError):
    """The gateway answered that something went wrong in it: it may be worth a few tries more."""


class GatewayBusyError(GatewayUnreachableError):
    """The caller sends more requests than the gateway takes: try again after a while."""

    def __init__(self, message: str, *, wait_seconds: float) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class GatewayRefusedError(PermissionError):
    """The gateway does not accept this token (any more): the segment belongs to someone else."""


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
    """What an agent asks of the gateway, for the one segment that its token names.

    Every call is safe to repeat and raises `GatewayUnreachableError` or `GatewayRefusedError`.
    """

    def report(self, reports: Sequence[Report]) -> Control:
        """Hands in reports (none is a sign of life) and learns what the trial is to do."""
        ...

    def curve(self) -> list[tuple[int, float]]:
        """The trial's reported values so far, by step, those of earlier segments included."""
        ...

    def forecast(self, forecast: CurveForecast) -> None:
        """Hands in a forecast, before the report of its step."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Says that a checkpoint is whole in the store."""
        ...

    def finish(
        self,
        result: SegmentResult,
        reports: Sequence[Report] = (),
        provenance: Provenance | None = None,
    ) -> SegmentReceipt:
        """Says how the segment ended, and hands in with it what there is to say at the end.

        Args:
            result: How it ended.
            reports: The last reports.
            provenance: What the training was made from and ran with.
        """
        ...
