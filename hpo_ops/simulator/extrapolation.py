"""Extends the traces of trials that were cut short, for replays that train the trials longer.

A trial that a scheduler stopped has no recorded values after its last step. A replay under another
scheduler may train the trial longer and needs values for the later steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np

from hpo_ops.core import Observation, TrialState
from hpo_ops.curves import CurvePredictor
from hpo_ops.simulator._replay_result import Replay
from hpo_ops.simulator.traces import Traces, TrialTrace


class Unseen(StrEnum):
    """The possible rules for extending the trace of a trial beyond its recorded steps.

    ``HOLD``: Repeat the last value, so that more training takes time but brings no improvement.
    ``FORECAST``: Use the median of a learning-curve forecast, or the last value if the predictor
    returns no forecast.
    ``CUT``: Do not extend the trace; the trial ends after its last recorded step, as if it had
    completed.
    """

    HOLD = "hold"
    FORECAST = "forecast"
    CUT = "cut"

    @property
    def explanation(self) -> str:
        """A description of this rule for users, as a clause that fits into a sentence."""
        return {
            Unseen.HOLD: "past its recording a trial takes its own mean time a step "
            "and keeps its last value",
            Unseen.FORECAST: "past its recording a trial takes its own mean time a step "
            "and follows the median of a forecast of its curve",
            Unseen.CUT: "a trial ends where its recording ends, as if it had completed, "
            "so that times are too short for policies that would train it longer",
        }[self]


@dataclass(frozen=True)
class Reliance:
    """How much of a replay relies on values that were extrapolated rather than measured.

    Attributes:
        trials: The trials that were trained beyond their recorded steps: their numbers in the
            recorded study or, if a trial was not recorded, its position in the traces.
        reports: Number of replayed reports with an extrapolated value.
        of: Number of all replayed reports.
    """

    trials: tuple[int, ...]
    reports: int
    of: int


def fill_unseen(
    traces: Traces, rule: Unseen, *, last_step: int, predictor: CurvePredictor | None = None
) -> Traces:
    """Returns the traces with every trial that was cut short extended to the last step.

    Args:
        traces: The traces; trials that were not recorded in a live study are not extended.
        rule: How to extend the trials; ``Unseen.CUT`` returns the traces unchanged.
        last_step: Last step of a full-length trial.
        predictor: Forecasts learning curves, for ``Unseen.FORECAST``.
    """
    if rule is Unseen.CUT:
        return traces
    stride = usual_stride(traces)
    return replace(
        traces,
        trials=tuple(
            _fill(trial, traces, rule, _steps_after(trial, stride, last_step), predictor)
            if trial.record is not None and trial.record.is_cut_short
            else trial
            for trial in traces.trials
        ),
    )


def _steps_after(trial: TrialTrace, stride: int, last_step: int) -> range:
    return range(trial.at_steps[-1] + stride, last_step + 1, stride)


def full_length_steps(traces: Traces) -> int:
    """Returns the last step of a full-length trial.

    It is the last step of the longest completed trial. If no trial has completed, it is
    ``max_steps`` of the recorded scheduler or the last step of the longest trial, whichever is
    larger.
    """
    completed = [
        trial.at_steps[-1]
        for trial in traces.trials
        if trial.record is not None and trial.record.state is TrialState.COMPLETED
    ]
    if completed:
        return max(completed)
    said = None if traces.terms is None else traces.terms.scheduler.get("max_steps")
    return max(said, traces.max_steps) if isinstance(said, int) else traces.max_steps


def usual_stride(traces: Traces) -> int:
    """Returns the most frequent number of steps between two reports of a trial."""
    gaps = Counter(
        after - before
        for trial in traces.trials
        if trial.steps
        for before, after in pairwise(trial.steps)
    )
    return gaps.most_common(1)[0][0] if gaps else 1


def _fill(
    trial: TrialTrace,
    traces: Traces,
    rule: Unseen,
    added: range,
    predictor: CurvePredictor | None,
) -> TrialTrace:
    if not added:
        return trial
    pace = sum(trial.seconds) / len(trial.seconds)
    values = list(_continued(trial, traces, rule, added, predictor))
    steps = (*trial.at_steps, *added)
    is_plain = steps == tuple(range(1, len(steps) + 1))
    return replace(
        trial,
        values=(*trial.values, *values),
        seconds=(*trial.seconds, *(pace for _ in added)),
        steps=() if is_plain else steps,
        measured=len(trial.values),
    )


def _continued(
    trial: TrialTrace,
    traces: Traces,
    rule: Unseen,
    added: range,
    predictor: CurvePredictor | None,
) -> Iterator[float]:
    forecast = None
    if rule is Unseen.FORECAST and predictor is not None:
        seen = [
            Observation(step, traces.direction.to_score(value), seconds)
            for step, value, seconds in zip(
                trial.at_steps, trial.values, trial.seconds, strict=True
            )
        ]
        forecast = predictor.predict(seen, last_step=added[-1])
    if forecast is None:
        yield from (trial.values[-1] for _ in added)
        return
    medians = [forecast.median(step) for step in forecast.steps]
    for score in np.interp(added, forecast.steps, medians):
        yield traces.direction.to_value(float(score))


def reliance_of(traces: Traces, replay: Replay) -> Reliance:
    """Returns how much of a replay of these traces relies on extrapolated values."""
    beyond: list[int] = []
    reports = 0
    for position, trial in enumerate(replay.study.trials):
        trace = traces.trials[position]
        made = len(trial.observations)
        if trace.measured is not None and made > trace.measured:
            reports += made - trace.measured
            beyond.append(position if trace.record is None else trace.record.trial)
    return Reliance(tuple(sorted(beyond)), reports, replay.events)
