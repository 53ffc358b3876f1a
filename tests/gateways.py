"""A gateway in memory, for whatever talks to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpo_ops.client import SegmentReceipt
from hpo_ops.protocol import Checkpoint, Control, CurveForecast, Provenance, Report, SegmentResult


class FakeGateway:
    """Keeps what it is told; answers by a rule; fails when told to.

    Attributes:
        decide: What it answers, given all reports so far.
        fail: Called before each call; may raise.
    """

    def __init__(self, decide: Callable[[list[Report]], Control] = lambda _: Control()) -> None:
        self.decide = decide
        self.fail: Callable[[], None] = lambda: None
        self.reports: list[Report] = []
        self.posts: list[int] = []
        self.earlier: list[tuple[int, float]] = []
        self.forecasts: list[CurveForecast] = []
        self.checkpoints: list[Checkpoint] = []
        self.provenance = Provenance()
        self.results: list[SegmentResult] = []

    def report(self, reports: Sequence[Report]) -> Control:
        self.fail()
        self.posts.append(len(reports))
        self.reports.extend(reports)
        return self.decide(self.reports)

    def curve(self) -> list[tuple[int, float]]:
        self.fail()
        return list(self.earlier)

    def forecast(self, forecast: CurveForecast) -> None:
        self.fail()
        self.forecasts.append(forecast)

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self.fail()
        self.checkpoints.append(checkpoint)

    def finish(
        self,
        result: SegmentResult,
        reports: Sequence[Report] = (),
        provenance: Provenance | None = None,
    ) -> SegmentReceipt:
        self.fail()
        self.reports.extend(reports)
        self.results.append(result)
        self.provenance = provenance or self.provenance
        return SegmentReceipt(result=result)
