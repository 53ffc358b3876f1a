"""The state that a trial moves to when one of its segments ends. Pure: no I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.core.trial_state import TrialState
from hpo_ops.protocol import Outcome, SegmentResult

MAX_PREEMPTIONS_WITHOUT_PROGRESS = 10
"""Number of preemptions in a row without a new checkpoint beyond which a trial fails."""


@dataclass(frozen=True, kw_only=True)
class SegmentHistory:
    """The facts about a trial and its study that determine the trial's state after a segment.

    A segment is one uninterrupted execution of a trial.

    Attributes:
        max_steps: Steps of a full-length trial; None if the training code decides.
        failures: Number of the trial's earlier segments that failed.
        retries: How often a trial is retried after a failed segment.
        fruitless_preemptions: Number of earlier preemptions in a row without a new checkpoint.
        reached_target: Whether the trial has reached the study's target.
        is_study_over: Whether the study has been requested to stop.
        is_study_paused: Whether the study is paused.
        is_resized: Whether the segment was ended in order to change the trial's resources.
    """

    max_steps: int | None
    failures: int = 0
    retries: int = 0
    fruitless_preemptions: int = 0
    reached_target: bool = False
    is_study_over: bool = False
    is_study_paused: bool = False
    is_resized: bool = False


@dataclass(frozen=True)
class TrialTransition:
    """A trial's next state and the reason for it.

    ``RUNNING`` means that the trial keeps its slot: its task starts another segment from the
    newest checkpoint. A trial in a finished state never runs again.
    """

    state: TrialState
    reason: str


def trial_after(result: SegmentResult, history: SegmentHistory) -> TrialTransition:
    """Returns the next state of a trial whose segment has ended with the given result."""
    if history.reached_target and result.outcome is not Outcome.FAILED:
        # A trial that reached the target has succeeded, however its last segment ended.
        return TrialTransition(TrialState.COMPLETED, result.reason or "reached the target")
    match result.outcome:
        case Outcome.COMPLETED:
            return _after_completed(result, history)
        case Outcome.STOPPED:
            return TrialTransition(TrialState.PRUNED, result.reason or "stopped")
        case Outcome.PAUSED:
            return _after_paused(result, history)
        case Outcome.FAILED:
            return _after_failed(result, history)
        case Outcome.PREEMPTED:
            return _after_preempted(result, history)


def _after_completed(result: SegmentResult, history: SegmentHistory) -> TrialTransition:
    if history.max_steps is not None and result.step < history.max_steps:
        if result.step == 0:
            return TrialTransition(TrialState.FAILED, "the training ended before its first step")
        if history.is_study_over:
            return TrialTransition(TrialState.PRUNED, "the study is over")
        return TrialTransition(
            TrialState.PAUSED, f"trained {result.step} of {history.max_steps} steps"
        )
    return TrialTransition(TrialState.COMPLETED, result.reason or f"trained {result.step} steps")


def _after_paused(result: SegmentResult, history: SegmentHistory) -> TrialTransition:
    if history.is_study_over:
        return TrialTransition(TrialState.PRUNED, result.reason or "the study is over")
    if history.is_study_paused:
        return TrialTransition(TrialState.RUNNING, "paused with its study; resumes with it")
    if history.is_resized:
        return TrialTransition(
            TrialState.RUNNING, f"restarts with other resources: {result.reason}"
        )
    return TrialTransition(TrialState.PAUSED, result.reason or f"paused at step {result.step}")


def _after_failed(result: SegmentResult, history: SegmentHistory) -> TrialTransition:
    reason = result.reason or f"exit code {result.exit_code}"
    if history.is_study_over or history.failures >= history.retries:
        attempts = (
            f" (attempt {history.failures + 1} of {history.retries + 1})"
            if history.retries
            else ""
        )
        return TrialTransition(TrialState.FAILED, reason + attempts)
    return TrialTransition(
        TrialState.RUNNING, f"retry {history.failures + 1} of {history.retries}: {reason}"
    )


def _after_preempted(result: SegmentResult, history: SegmentHistory) -> TrialTransition:
    if history.is_study_over:
        return TrialTransition(TrialState.PRUNED, "the study is over")
    if history.fruitless_preemptions >= MAX_PREEMPTIONS_WITHOUT_PROGRESS:
        return TrialTransition(
            TrialState.FAILED,
            f"preempted {history.fruitless_preemptions + 1} times without a new checkpoint: "
            f"{result.reason}",
        )
    return TrialTransition(
        TrialState.RUNNING, f"preempted: {result.reason or 'for an unknown reason'}"
    )
