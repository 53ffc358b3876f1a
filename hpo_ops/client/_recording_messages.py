"""Recordings of studies, for replays: their reports and segments."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class ReportPage(Message):
    """A page of a study's reports in the order of their arrival, as columns of equal length.

    The page after the last one is empty.

    Attributes:
        ids: Ids of the reports, ascending; the next page starts after the last one.
        trials: Trial of each report.
        steps: Step of each report.
        values: Value of the objective.
        seconds: Training time since the trial's previous report.
        times: Time of arrival, in seconds since the study started.
    """

    ids: list[int] = field(default_factory=list)
    trials: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class SegmentSummary(Message):
    """A segment of a trial.

    Attributes:
        start: When it started, in seconds since the start of the study.
        end: When it ended, in the same way; None while it runs.
        units: Width of the trial during the segment.
    """

    trial: int
    start: float
    from_step: int
    end: float | None = None
    step: int | None = None
    outcome: str | None = None
    reason: str = ""
    units: float = 1.0
