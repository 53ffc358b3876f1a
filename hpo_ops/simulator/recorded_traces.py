"""Builds traces of a study from the responses of the gateway (the HTTP API of the platform)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpo_ops.client import Progress, ReportPage, SegmentSummary, TrialSummary
from hpo_ops.core import Direction
from hpo_ops.simulator.traces import (
    SegmentRecord,
    StudyTerms,
    TraceError,
    Traces,
    TrialRecord,
    TrialTrace,
)

Rows = list[tuple[int, float, float, float]]
"""Step, value, seconds of training and time of each report of a trial."""


def record_study(
    progress: Progress,
    config: Mapping[str, Any],
    *,
    trials: Sequence[TrialSummary],
    reports: Iterable[ReportPage],
    segments: Iterable[SegmentSummary],
) -> Traces:
    """Builds the traces of a study; trials without reports are only listed in `terms.silent`.

    Args:
        progress: The study's state, counts and elapsed time, as the gateway returned them.
        config: The study's configuration as plain data.
        trials: The trials of the study.
        reports: The reports of all trials.
        segments: The segments (uninterrupted executions) of all trials; a running segment counts
            up to the time of `progress`.

    Raises:
        TraceError: No trial has reported anything.
    """
    curves: dict[int, Rows] = defaultdict(list)
    for page in reports:
        columns = zip(page.trials, page.steps, page.values, page.seconds, page.times, strict=True)
        for number, step, value, seconds, time in columns:
            curves[number].append((step, value, seconds, time))
    runs: dict[int, list[SegmentRecord]] = defaultdict(list)
    for item in segments:
        end = max(progress.seconds, item.start) if item.end is None else item.end
        to_step = item.from_step if item.step is None else item.step
        runs[item.trial].append(
            SegmentRecord(item.start, end, item.from_step, to_step, item.outcome or "")
        )
    known = [trial for trial in trials if curves.get(trial.trial)]
    if not known:
        raise TraceError(f"no trial of {progress.name} has reported a value yet")
    silent = tuple(trial.trial for trial in trials if not curves.get(trial.trial))
    return Traces(
        name=progress.name,
        metric=progress.metric,
        direction=Direction(progress.direction),
        trials=tuple(_trace(trial, curves[trial.trial], runs[trial.trial]) for trial in known),
        terms=_terms(progress, config, silent),
    )


def _trace(trial: TrialSummary, rows: Rows, runs: Sequence[SegmentRecord]) -> TrialTrace:
    steps, values, seconds, times = zip(*sorted(rows), strict=True)
    is_plain = steps == tuple(range(1, len(steps) + 1))
    return TrialTrace(
        values,
        seconds,
        dict(trial.params),
        steps=() if is_plain else steps,
        record=TrialRecord(trial.trial, trial.state, times, tuple(runs)),
    )


def _terms(progress: Progress, config: Mapping[str, Any], silent: tuple[int, ...]) -> StudyTerms:
    metric = config.get("metric") or {}
    return StudyTerms(
        run=progress.run_id,
        scheduler=dict(config["scheduler"]),
        slots=config["parallelism"],
        rounds=config["flow"] == "rounds",
        reproducible=config["reproducible"],
        trials=config["trials"],
        target=metric.get("target"),
        deadline_seconds=config["budget"]["wall"],
        state=progress.state,
        reason=progress.reason,
        silent=silent,
        curves=config.get("curves"),
    )
