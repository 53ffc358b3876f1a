"""The unseen remainder of trials that were cut short: what a replay may assume about it.

A trial that a policy stopped has no further curve. A replay under another policy may want to
train it longer, and something has to stand there.
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
from hpo_ops.simulator.replay_result import Replay
from hpo_ops.simulator.traces import Traces, TrialTrace


class Unseen(StrEnum):
    """What stands for the steps that a trial did not get to.

    ``HOLD``: its last value, so that it costs time and never gets better than it was seen to be.
    ``FORECAST``: the median of a learning-curve forecast, the last value where there is none.
    ``CUT``: nothing: the trial ends where it was cut, as if it were whole.
    """

    HOLD = "hold"
    FORECAST = "forecast"
    CUT = "cut"

    @property
    def explanation(self) -> str:
        """The rule as the rest of a sentence on trials that were cut short."""
        return {
            Unseen.HOLD: "past its recording a trial takes its own mean time a step "
            "and keeps its last value",
            Unseen.FORECAST: "past its recording a trial takes its own mean time a step "
            "and follows the median of a forecast of its curve",
            Unseen.CUT: "a trial ends where its recording ends, as if it were whole, "
            "so that times are too short for policies that would have trained it longer",
        }[self]


@dataclass(frozen=True)
class Reliance:
    """How much of a replay rests on what was not measured.

    Attributes:
        trials: Trials that went past their recording, by number in the recorded study, else by
            their place in the traces.
        reports: Reports that were not measured.
        of: Reports in all.
    """

    trials: tuple[int, ...]
    reports: int
    of: int


def fill_unseen(
    traces: Traces, rule: Unseen, *, last_step: int, predictor: CurvePredictor | None = None
) -> Traces:
    """The traces with every trial that was cut short continued to the last step.

    Args:
        traces: What was recorded; trials without a record count as whole.
        rule: What stands for what was not seen.
        last_step: Last step of a whole trial.
        predictor: Forecasts curves, for that rule.
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


def whole_steps(traces: Traces) -> int:
    """Steps of a whole trial: of the longest that completed, else as the study's scheduler said.

    Where neither is known, of the longest there is.
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
    """Steps between two reports, as it is most often."""
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
    """How much of a replay of these traces was not measured."""
    beyond: list[int] = []
    reports = 0
    for place, trial in enumerate(replay.study.trials):
        trace = traces.trials[place]
        made = len(trial.observations)
        if trace.measured is not None and made > trace.measured:
            reports += made - trace.measured
            beyond.append(place if trace.record is None else trace.record.trial)
    return Reliance(tuple(sorted(beyond)), reports, replay.events)
