"""The gateway client of an agent: sends the reports, checkpoints and end of one segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpo_ops.client._segment_gateway import SegmentReceipt
from hpo_ops.client.store_session import StoreSession
from hpo_ops.client.transport import Transport
from hpo_ops.protocol import Checkpoint, Control, CurveForecast, Provenance, Report, SegmentResult


def end_of_segment(
    result: SegmentResult, reports: Sequence[Report], provenance: Provenance | None
) -> dict[str, Any]:
    """Builds the body of the request that reports the end of a segment."""
    return {
        "result": result.to_dict(),
        "reports": [report.to_dict() for report in reports],
        "provenance": provenance and provenance.known(),
    }


class SegmentClient:
    """Implements `SegmentGateway` over HTTP, for the agent of one segment.

    Args:
        url: URL of the gateway's server.
        token: Token that authorises requests about this segment only.
        segment: Id of the segment.
        timeout: Seconds to wait for an answer.
    """

    def __init__(self, url: str, token: str, segment: str, *, timeout: float = 10.0) -> None:
        self._transport = Transport(url, token, timeout=timeout)
        self._path = f"/segments/{segment}"

    def report(self, reports: Sequence[Report]) -> Control:
        body = [report.to_dict() for report in reports]
        return Control.from_dict(self._transport.request("POST", f"{self._path}/reports", body))

    def curve(self) -> list[tuple[int, float]]:
        answer = self._transport.request("GET", f"{self._path}/curve")
        return [(step, value) for step, value in answer]

    def forecast(self, forecast: CurveForecast) -> None:
        self._transport.request("POST", f"{self._path}/forecasts", forecast.to_dict())

    def store_session(self) -> StoreSession:
        """Requests temporary credentials for the segment's part of the object store."""
        answer = self._transport.request("POST", f"{self._path}/credentials")
        return StoreSession.from_dict(answer)

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self._transport.request("POST", f"{self._path}/checkpoints", checkpoint.to_dict())

    def finish(
        self,
        result: SegmentResult,
        reports: Sequence[Report] = (),
        provenance: Provenance | None = None,
    ) -> SegmentReceipt:
        body = end_of_segment(result, reports, provenance)
        return SegmentReceipt.from_dict(
            self._transport.request("POST", f"{self._path}/result", body)
        )
