"""Trials as tasks, the CLI and the UI see them: results, summaries and details."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hpo_ops.core import TrialState
from hpo_ops.protocol import (
    Message,
    Metrics,
    ParamValue,
    ProtocolError,
    Provenance,
    Report,
    SegmentResult,
)
from hpo_ops.protocol.field_checks import is_step


@dataclass(frozen=True, kw_only=True)
class Served(Message):
    """The source of reports that the score cache served to a trial.

    Attributes:
        study: Key of the study that trained them.
        trial: Number of the trial in that study.
        step: The last step whose report was served; the trial itself trains the steps after it.
    """

    study: str
    trial: int
    step: int

    def __str__(self) -> str:
        return f"trial {self.trial} of {self.study}, up to step {self.step}"


@dataclass(frozen=True, kw_only=True)
class UnconfirmedEnd(Message):
    """The end of a segment that the gateway did not confirm, with all that it may have missed.

    Attributes:
        segment: Id of the segment.
        result: How the segment ended, as its agent judged it.
        reports: Reports that the gateway did not confirm.
    """

    segment: str
    result: SegmentResult
    reports: list[Report] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class TrialResult(Message):
    """State and value of a trial: what its task hands on by XCom when it ends.

    Attributes:
        state: State of the trial. A paused trial may be resumed in a later round.
        reason: Why the trial is in this state.
        step: The last reported step.
        value: The best value of the objective; None without a report.
        best_step: The step of that value.
        served: Where its reports come from, if the score cache served some of them.
        unconfirmed: The end of the last segment, if the gateway did not confirm it. Then the
            other fields are what the task knows, and the value is that of the last segment.
    """

    trial: int
    state: TrialState
    reason: str
    step: int = 0
    value: float | None = None
    best_step: int | None = None
    params: dict[str, ParamValue] = field(default_factory=dict)
    served: Served | None = None
    unconfirmed: UnconfirmedEnd | None = None

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise ProtocolError(f"value is {self.value}, but must be a finite number")
        if not is_step(self.step) or not (self.best_step is None or is_step(self.best_step)):
            raise ProtocolError(
                f"step is {self.step} and best_step {self.best_step}, but both must be integers, "
                "0 or more"
            )


@dataclass(frozen=True, kw_only=True)
class FoldSummary(Message):
    """One fold of a trial.

    Attributes:
        fold: The fold, 0 and up.
        number: The fold's own trial number, which its task and its checkpoints have.
        value: Its value at the trial's best step; its best value so far while it is unfinished.
    """

    fold: int
    number: int
    state: TrialState
    reason: str
    step: int
    value: float | None


@dataclass(frozen=True, kw_only=True)
class TrialSummary(Message):
    """One line of the list of trials.

    Attributes:
        deviation: Sample standard deviation of the finished folds; the value is their mean.
        folds: Its folds, if the study has folds.
    """

    trial: int
    state: TrialState
    reason: str
    step: int
    value: float | None
    best_step: int | None
    params: dict[str, ParamValue]
    segments: int
    seconds: float | None
    metrics: Metrics = field(default_factory=dict)
    is_feasible: bool = True
    served: Served | None = None
    deviation: float | None = None
    folds: list[FoldSummary] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class SegmentDetail(Message):
    """A segment of a trial, with its provenance.

    Attributes:
        cause: Why it ended, as a `hpo_ops.protocol.Cause`; None if it has not ended, or not known.
        trial: The trial's number; with folds, the number of the fold.
    """

    id: str
    runner: str
    from_step: int
    until_step: int | None = None
    step: int | None = None
    outcome: str | None = None
    cause: str | None = None
    reason: str = ""
    trial: int = 0
    provenance: Provenance = field(default_factory=Provenance)


@dataclass(frozen=True, kw_only=True)
class TrialDetail(Message):
    """Everything that is needed to train a trial again.

    Attributes:
        summary: State and value of the trial.
        seed: Seed of the trial.
        data_version: Version of the data, if the study names it.
        segments: Its segments, oldest first.
    """

    summary: TrialSummary
    seed: int
    data_version: str | None = None
    segments: list[SegmentDetail] = field(default_factory=list)

    @property
    def provenance(self) -> Provenance:
        """The provenance of the last segment, completed with that of the segments before it."""
        found = Provenance()
        for segment in self.segments:
            found = segment.provenance.over(found)
        return found
