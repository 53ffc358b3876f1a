"""What a study left behind, as the gateway hands it out to be replayed."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class ReportPage(Message):
    """Reports of a study in the order in which they came, a column each; empty at the end.

    Attributes:
        ids: Ids that rise; the last one is where the next page goes on.
        trials: Whose report it is.
        steps: After which step.
        values: The study's first metric.
        seconds: Training time since the report before.
        times: Seconds since the study started.
    """

    ids: list[int] = field(default_factory=list)
    trials: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class SegmentSummary(Message):
    """One run of a trial in one container; times are seconds since the study started."""

    trial: int
    start: float
    from_step: int
    end: float | None = None
    step: int | None = None
    outcome: str | None = None
    reason: str = ""
    units: float = 1.0
