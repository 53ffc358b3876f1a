"""Recorded reports and segments of a study, from which the simulator replays its trials."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class ReportPage(Message):
    """A page of a study's reports in the order of their arrival, as columns of equal length.

    An empty page means that there are no further reports.

    Attributes:
        ids: Ids of the reports, ascending; the next page starts after the last of these ids.
        trials: Trial number of each report.
        steps: Step of each report.
        values: Value of the objective in each report.
        seconds: Training time since the trial's previous report, in seconds.
        times: Time of each report's arrival, in seconds since the study started.
    """

    ids: list[int] = field(default_factory=list)
    trials: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class SegmentSummary(Message):
    """A segment: one uninterrupted execution of a trial.

    Attributes:
        trial: Number of the trial.
        start: When the segment started, in seconds since the start of the study.
        from_step: The step from which the segment resumed; 0 for a start from the beginning.
        end: When the segment ended, in seconds since the start of the study; None while it runs.
        step: The last step that the segment trained; None while it runs.
        outcome: How the segment ended; None while it runs.
        reason: Why the segment ended, as a sentence for people.
        units: Number of resource units (such as GPUs) of the segment; below 1 for a shared unit.
    """

    trial: int
    start: float
    from_step: int
    end: float | None = None
    step: int | None = None
    outcome: str | None = None
    reason: str = ""
    units: float = 1.0
