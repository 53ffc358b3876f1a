"""Several schedulers over many orders of the same trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from hpo_ops.core import Allocator, Scheduler
from hpo_ops.curves import CurvePredictor
from hpo_ops.simulator.cluster import Cluster
from hpo_ops.simulator.engine import simulate
from hpo_ops.simulator.memo import MemoPredictor
from hpo_ops.simulator.replay import Replay
from hpo_ops.simulator.traces import Traces


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A scheduler, with an allocator if it has one."""

    scheduler: Scheduler
    allocator: Allocator | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one policy did with one order of trials.

    Attributes:
        policy: Name of the policy.
        order: Which order.
        time_to_target: Seconds; None where the target was not reached.
        makespan: Seconds until the study ended.
        best: Best value at the end.
        unit_seconds: Units held, times how long.
        utilization: Share of the units' time that was held.
        trials: Trials that were started.
        events: Steps that were trained.
        restarts: Trials that were resized.
    """

    policy: str
    order: int
    time_to_target: float | None
    makespan: float
    best: float | None
    unit_seconds: float
    utilization: float
    trials: int
    events: int
    restarts: int

    @property
    def seconds(self) -> float:
        """Time to the target, or until the study ended without."""
        return self.makespan if self.time_to_target is None else self.time_to_target


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What one policy did over all orders: means, and the spread of the time to the target."""

    policy: str
    orders: int
    reached: int
    mean_seconds: float
    median_seconds: float
    least_seconds: float
    most_seconds: float
    mean_best: float | None
    mean_unit_seconds: float
    mean_utilization: float
    mean_trials: float


def compare(
    traces: Traces,
    policies: Mapping[str, Scheduler | Policy],
    *,
    cluster: Cluster,
    orders: int = 25,
    predictor: CurvePredictor | None = None,
    target: float | None = None,
    deadline_seconds: float | None = None,
    stop_at_target: bool = True,
) -> list[Outcome]:
    """Replays the traces under each policy, in the same orders, 0 being the traces' own.

    Forecasts are made once for each curve, whatever the policy and the order.
    """
    memo = None if predictor is None else MemoPredictor(predictor)
    outcomes = []
    for order in range(orders):
        shuffled = traces.reorder(order)
        for name, policy in policies.items():
            chosen = policy if isinstance(policy, Policy) else Policy(scheduler=policy)
            replay = simulate(
                shuffled,
                chosen.scheduler,
                cluster=cluster,
                allocator=chosen.allocator,
                predictor=memo,
                target=target,
                deadline_seconds=deadline_seconds,
                stop_at_target=stop_at_target,
            )
            outcomes.append(outcome_of(name, order, replay))
    return outcomes


def outcome_of(policy: str, order: int, replay: Replay) -> Outcome:
    """The figures of a replay."""
    return Outcome(
        policy=policy,
        order=order,
        time_to_target=replay.time_to_target,
        makespan=replay.makespan,
        best=replay.best[-1][1] if replay.best else None,
        unit_seconds=replay.unit_seconds,
        utilization=replay.utilization,
        trials=len(replay.study.trials),
        events=replay.events,
        restarts=replay.restarts,
    )


def summarize(outcomes: Sequence[Outcome]) -> list[Summary]:
    """A row for each policy, in the order in which they came."""
    rows = []
    for policy in dict.fromkeys(outcome.policy for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.policy == policy]
        seconds = [outcome.seconds for outcome in mine]
        best = [outcome.best for outcome in mine if outcome.best is not None]
        rows.append(
            Summary(
                policy=policy,
                orders=len(mine),
                reached=sum(outcome.time_to_target is not None for outcome in mine),
                mean_seconds=fmean(seconds),
                median_seconds=median(seconds),
                least_seconds=min(seconds),
                most_seconds=max(seconds),
                mean_best=fmean(best) if best else None,
                mean_unit_seconds=fmean(outcome.unit_seconds for outcome in mine),
                mean_utilization=fmean(outcome.utilization for outcome in mine),
                mean_trials=fmean(outcome.trials for outcome in mine),
            )
        )
    return rows


def oracle_seconds(traces: Traces, target: float, *, cluster: Cluster) -> float | None:
    """The least time to a target of one who knows the future and starts the right trial first."""
    score = traces.direction.to_score(target)
    found: list[float] = []
    for trial in traces.trials:
        total = cluster.start_seconds
        for value, seconds in zip(trial.values, trial.seconds, strict=True):
            total += seconds
            if traces.direction.to_score(value) >= score:
                found.append(total)
                break
    return min(found, default=None)
