"""Messages about trials for tasks, the CLI and the UI: results, summaries and details."""

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
        study: Key (name in Optuna and in the store) of the study whose trial produced the reports.
        trial: Number of the trial in that study.
        step: The last step whose report was served; later steps are trained by the trial itself.
    """

    study: str
    trial: int
    step: int

    def __str__(self) -> str:
        return f"trial {self.trial} of {self.study}, up to step {self.step}"


@dataclass(frozen=True, kw_only=True)
class UnconfirmedEnd(Message):
    """The end of a segment that the gateway did not confirm, and the unconfirmed reports.

    Attributes:
        segment: Id of the segment (one uninterrupted execution of a trial).
        result: How the segment ended, as determined by its agent.
        reports: Reports of the segment whose receipt the gateway did not confirm.
    """

    segment: str
    result: SegmentResult
    reports: list[Report] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class TrialResult(Message):
    """State and value of a trial, which the trial's task returns through XCom when it ends.

    Attributes:
        trial: Number of the trial.
        state: State of the trial. A paused trial may be resumed in a later round.
        reason: Why the trial is in this state.
        step: The last reported step.
        value: The best value of the objective; None if the trial has not reported any.
        best_step: The step of the best value.
        params: Hyperparameters of the trial.
        served: Source of the trial's reports, if the score cache served some of them.
        unconfirmed: The end of the last segment, if the gateway did not confirm it. In that case
            the other fields contain the task's own knowledge, and the value is the best value of
            the last segment.
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
    """State and value of one cross-validation fold of a trial.

    Attributes:
        fold: Number of the fold, starting at 0.
        number: The fold's own trial number, which identifies its task and its checkpoints.
        value: The fold's value at the trial's best step, or the fold's own best value if the fold
            has not completed; None if the fold has not reported any value.
    """

    fold: int
    number: int
    state: TrialState
    reason: str
    step: int
    value: float | None


@dataclass(frozen=True, kw_only=True)
class TrialSummary(Message):
    """State, value and parameters of a trial, as one row of the list of trials.

    Attributes:
        deviation: Sample standard deviation of the finished folds' values; `value` is their mean.
        folds: The trial's folds; empty if the study has no folds.
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
    """A segment (one uninterrupted execution of a trial), with its provenance.

    Attributes:
        cause: Why the segment ended, as a value of `hpo_ops.protocol.Cause`; None if the segment
            has not ended or its cause is unknown.
        trial: Number of the trial; with folds, the fold's own trial number.
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
    """Everything that is needed to reproduce a trial: parameters, seed, data and provenance.

    Attributes:
        summary: State, value and parameters of the trial.
        seed: Seed of the trial.
        data_version: Version of the training data; None if the study does not declare it.
        segments: The trial's segments, oldest first.
    """

    summary: TrialSummary
    seed: int
    data_version: str | None = None
    segments: list[SegmentDetail] = field(default_factory=list)

    @property
    def provenance(self) -> Provenance:
        """The last segment's provenance; unknown fields are filled in from earlier segments."""
        found = Provenance()
        for segment in self.segments:
            found = segment.provenance.over(found)
        return found
