"""Simulates a study in virtual time."""

from __future__ import annotations

import gc

from hpo_ops.core import Allocator, Goal, Scheduler
from hpo_ops.curves import CurvePredictor
from hpo_ops.schedulers import with_defaults
from hpo_ops.simulator._cluster_capacity import Cluster
from hpo_ops.simulator._event_loop import EventLoop
from hpo_ops.simulator._replay_result import Replay
from hpo_ops.simulator.traces import Traces


def simulate(
    traces: Traces,
    scheduler: Scheduler,
    *,
    cluster: Cluster,
    allocator: Allocator | None = None,
    predictor: CurvePredictor | None = None,
    target: float | None = None,
    deadline_seconds: float | None = None,
    stop_at_target: bool = True,
    at_barrier: bool = False,
    rounds: bool = False,
) -> Replay:
    """Replays a study in virtual time under a scheduler and, if given, an allocator.

    Schedulers and allocators are the classes that live studies use. The same arguments give the
    same log.

    Args:
        traces: The reports of every trial.
        scheduler: Decides which trials run, and for how long.
        cluster: The simulated cluster.
        allocator: Decides how many resource units each trial gets; if None, each trial gets one.
        predictor: Forecasts learning curves for the scheduler; None for no forecasts.
        target: Value of the objective to reach; None for no target.
        deadline_seconds: Seconds after which the study ends; None for no deadline.
        stop_at_target: Whether the study ends when the target is reached.
        at_barrier: Whether the scheduler decides only between rounds (batches of trials with a
            barrier after each), as in a study with ``reproducible: true``.
        rounds: Whether slots are filled only when all are free, as in ``flow: rounds``.

    Raises:
        ValueError: The scheduler starts copies of trials (as in population-based training), for
            which traces have no reports.
    """
    goal = Goal(
        direction=traces.direction,
        trials=len(traces.trials),
        target=target,
        deadline_seconds=deadline_seconds,
        at_barrier=at_barrier,
    )
    loop = EventLoop(
        traces,
        with_defaults(scheduler),
        cluster,
        goal,
        allocator=allocator,
        predictor=predictor,
        rounds=rounds,
    )
    collects = gc.isenabled()
    gc.disable()  # the loop makes no reference cycles, and the search for them takes time
    try:
        return loop.run(stop_at_target=stop_at_target)
    finally:
        if collects:
            gc.enable()
