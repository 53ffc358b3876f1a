"""Replays studies in virtual time, with the same scheduler and allocator classes as live studies.

A replay needs no training: the reports of each trial come from a trace, which was recorded from a
live study or generated.
"""

from hpo_ops.simulator._cluster_capacity import Cluster
from hpo_ops.simulator._forecast_cache import MemoPredictor
from hpo_ops.simulator._replay_result import Event, Interval, Replay
from hpo_ops.simulator._simulation import simulate
from hpo_ops.simulator.policy_comparison import (
    Outcome,
    Spread,
    Summary,
    compare,
    oracle_seconds,
    summarize,
)
from hpo_ops.simulator.synthetic_traces import game_study, image_study, slow_study, uneven_study
from hpo_ops.simulator.trace_files import load_traces, save_traces
from hpo_ops.simulator.traces import TraceError, Traces, TrialTrace

__all__ = [
    "Cluster",
    "Event",
    "Interval",
    "MemoPredictor",
    "Outcome",
    "Replay",
    "Spread",
    "Summary",
    "TraceError",
    "Traces",
    "TrialTrace",
    "compare",
    "game_study",
    "image_study",
    "load_traces",
    "oracle_seconds",
    "save_traces",
    "simulate",
    "slow_study",
    "summarize",
    "uneven_study",
]
