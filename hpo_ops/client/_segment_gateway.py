"""The gateway's interface for agents, as a protocol class that tests implement without a network.

An agent is the process beside a training that forwards its reports and checkpoints. A segment is
one uninterrupted execution of a trial.
"""

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
    """The gateway's confirmation of a segment's result.

    Attributes:
        result: The result on record. It differs from the result that was sent if an earlier
            result of the segment had been recorded.
        score: The trial's result, if the trial has finished with this segment; otherwise None.
    """

    result: SegmentResult
    score: TrialResult | None = None


class SegmentGateway(Protocol):
    """The calls of an agent to the gateway, which all concern the agent's own segment.

    Every call is idempotent and may raise `GatewayUnreachableError` or `GatewayRefusedError`.
    """

    def report(self, reports: Sequence[Report]) -> Control:
        """Sends reports and returns the requested action; empty `reports` serve as a heartbeat."""
        ...

    def curve(self) -> list[tuple[int, float]]:
        """Returns the trial's learning curve, including the reports of earlier segments.

        Returns:
            Pairs of step and value of the objective.
        """
        ...

    def forecast(self, forecast: CurveForecast) -> None:
        """Sends a forecast of the trial's learning curve.

        A forecast is based on the curve up to a step, and must be sent before that step's report.
        """
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Announces that all files of a checkpoint are in the object store."""
        ...

    def finish(
        self,
        result: SegmentResult,
        reports: Sequence[Report] = (),
        provenance: Provenance | None = None,
    ) -> SegmentReceipt:
        """Reports how the segment ended, with its undelivered reports and its provenance.

        The first result of a segment remains on record; the receipt contains the recorded result.
        """
        ...
