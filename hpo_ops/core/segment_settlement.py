"""What becomes of a trial when one of its segments ends."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.core.trial_state import TrialState
from hpo_ops.protocol import Outcome, Result

MAX_PREEMPTIONS_WITHOUT_PROGRESS = 10
"""A trial whose container is taken away so often before its next checkpoint is given up."""


@dataclass(frozen=True, kw_only=True)
class SegmentHistory:
    """What counts of a trial's past when a segment ends.

    Attributes:
        max_steps: Steps of a whole trial; None where the training code decides.
        failures: Segments that failed before.
        retries: How often failing code is tried again.
        fruitless_preemptions: Preemptions in a row without a new checkpoint.
        reached_target: The trial has reached the study's target.
        is_study_over: The study has been asked to stop.
        is_study_paused: The study as a whole is paused.
        is_resized: The segment was to end so that the next one has other resources.
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
class Settlement:
    """A trial's next state, and why. ``RUNNING`` keeps its place: again, from the checkpoint."""

    state: TrialState
    reason: str


def settle(result: Result, history: SegmentHistory) -> Settlement:
    """The trial's next state after a segment that ended like this."""
    if history.reached_target and result.outcome is not Outcome.FAILED:
        # However its last segment ended: it is what the study was after.
        return Settlement(TrialState.COMPLETED, result.reason or "reached the target")
    match result.outcome:
        case Outcome.COMPLETED:
            return _settle_completed(result, history)
        case Outcome.STOPPED:
            return Settlement(TrialState.PRUNED, result.reason or "stopped")
        case Outcome.PAUSED:
            return _settle_paused(result, history)
        case Outcome.FAILED:
            return _settle_failed(result, history)
        case Outcome.PREEMPTED:
            return _settle_preempted(result, history)


def _settle_completed(result: Result, history: SegmentHistory) -> Settlement:
    if history.max_steps is not None and result.step < history.max_steps:
        if result.step == 0:
            return Settlement(TrialState.FAILED, "the training ended before its first step")
        if history.is_study_over:
            return Settlement(TrialState.PRUNED, "the study is over")
        return Settlement(
            TrialState.PAUSED, f"step {result.step} of {history.max_steps} is trained"
        )
    return Settlement(TrialState.COMPLETED, result.reason or f"trained {result.step} steps")


def _settle_paused(result: Result, history: SegmentHistory) -> Settlement:
    if history.is_study_over:
        return Settlement(TrialState.PRUNED, result.reason or "the study is over")
    if history.is_study_paused:
        return Settlement(TrialState.RUNNING, "goes on when the study does")
    if history.is_resized:
        return Settlement(TrialState.RUNNING, f"is resized: {result.reason}")
    return Settlement(TrialState.PAUSED, result.reason or f"paused at step {result.step}")


def _settle_failed(result: Result, history: SegmentHistory) -> Settlement:
    reason = result.reason or f"exit code {result.exit_code}"
    if history.is_study_over or history.failures >= history.retries:
        tries = (
            f" (try {history.failures + 1} of {history.retries + 1})" if history.retries else ""
        )
        return Settlement(TrialState.FAILED, reason + tries)
    return Settlement(
        TrialState.RUNNING, f"retry {history.failures + 1} of {history.retries}: {reason}"
    )


def _settle_preempted(result: Result, history: SegmentHistory) -> Settlement:
    if history.is_study_over:
        return Settlement(TrialState.PRUNED, "the study is over")
    if history.fruitless_preemptions >= MAX_PREEMPTIONS_WITHOUT_PROGRESS:
        return Settlement(
            TrialState.FAILED,
            f"taken away {history.fruitless_preemptions + 1} times without a new checkpoint: "
            f"{result.reason}",
        )
    return Settlement(TrialState.RUNNING, f"preempted: {result.reason or 'container went away'}")
