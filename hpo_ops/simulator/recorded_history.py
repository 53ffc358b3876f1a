"""Computes what really happened in a recorded study, and the delays of the cluster it ran on.

A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from statistics import fmean, median

from hpo_ops.simulator._cluster_capacity import Cluster
from hpo_ops.simulator.traces import SegmentRecord, Traces, TrialTrace


@dataclass(frozen=True, kw_only=True)
class History:
    """Measurements of a recorded study. Times count from the start of its first segment.

    Attributes:
        makespan: Seconds until the last segment ended.
        time_to_best: Seconds until the best value was reported.
        best: The best value.
        unit_seconds: Sum of the durations of all segments, in seconds.
        utilization: Share of the time of all slots in which a segment held the slot.
        trials: Number of trials with reports.
        reports: Number of reports of all trials.
    """

    makespan: float
    time_to_best: float
    best: float
    unit_seconds: float
    utilization: float
    trials: int
    reports: int


def history_of(traces: Traces) -> History | None:
    """Returns the measurements of a recorded study, or None if the traces were not recorded."""
    segments = _segments(traces)
    if traces.terms is None or not segments:
        return None
    start = segments[0].start
    makespan = max(segment.end for segment in segments) - start
    held = sum(segment.end - segment.start for segment in segments)
    score, time = max(
        (traces.direction.to_score(value), -time)
        for trial in traces.trials
        if trial.record is not None
        for value, time in zip(trial.values, trial.record.times, strict=False)
    )
    return History(
        makespan=makespan,
        time_to_best=-time - start,
        best=traces.direction.to_value(score),
        unit_seconds=held,
        utilization=held / (makespan * traces.terms.slots) if makespan else 0.0,
        trials=len(traces.trials),
        reports=sum(len(trial.values) for trial in traces.trials),
    )


def first_start(traces: Traces) -> float:
    """Returns the seconds from the start of the study to the start of its first segment.

    Returns 0 if the traces were not recorded in a live study.
    """
    return min((segment.start for segment in _segments(traces)), default=0.0)


def calibrate(traces: Traces, cluster: Cluster) -> Cluster:
    """Returns a copy of the cluster with the delays measured in a recorded study.

    Returns the cluster unchanged if the traces were not recorded in a live study. The delay of a
    segment is its duration minus the training time of its reports: starting, imports, restoring,
    saving. The turnover is the time that a slot is empty before a segment: since the barrier if
    the study ran in rounds (batches of trials), otherwise since the end of the previous segment.
    """
    first, later = _delays(traces)
    if traces.terms is None or not first:
        return cluster
    gaps = _gaps(_segments(traces), slots=traces.terms.slots, rounds=traces.terms.rounds)
    start = fmean(first)
    return replace(
        cluster,
        start_seconds=start,
        resume_seconds=fmean(later) if later else start,
        turnover_seconds=median(gaps) if gaps else 0.0,
    )


def _segments(traces: Traces) -> list[SegmentRecord]:
    return sorted(
        segment
        for trial in traces.trials
        if trial.record is not None
        for segment in trial.record.segments
    )


def _delays(traces: Traces) -> tuple[list[float], list[float]]:
    """Returns the delays of trials' first segments, and those of all later segments.

    The delay of a segment is its duration minus the training time of its reports, in seconds.
    """
    first: list[float] = []
    later: list[float] = []
    for trial in traces.trials:
        segments = trial.record.segments if trial.record is not None else ()
        for position, segment in enumerate(segments):
            if segment.outcome:
                delay = segment.end - segment.start - _trained(trial, segment)
                (later if position else first).append(max(delay, 0.0))
    return first, later


def _trained(trial: TrialTrace, segment: SegmentRecord) -> float:
    """Returns the training time, in seconds, of the reports that arrived during a segment."""
    times = () if trial.record is None else trial.record.times
    return sum(
        seconds
        for time, seconds in zip(times, trial.seconds, strict=False)
        if segment.start <= time <= segment.end
    )


def _gaps(segments: list[SegmentRecord], *, slots: int, rounds: bool) -> list[float]:
    """Returns the seconds that a slot was empty before a segment started in it.

    The first segment in each slot is left out.
    """
    gaps = []
    ends: list[float] = []
    barrier = 0.0
    for position, segment in enumerate(segments):
        if rounds:
            if ends and segment.start >= max(ends):
                barrier, ends = max(ends), []
            if barrier and len(ends) < slots:
                gaps.append(segment.start - barrier)
            ends.append(segment.end)
        else:
            if position >= slots and ends and ends[0] <= segment.start:
                gaps.append(segment.start - heappop(ends))
            heappush(ends, segment.end)
    return gaps
