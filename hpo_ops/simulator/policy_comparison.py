"""Compares policies by replaying the same trials in several orders.

The order is the sequence in which the trials start. Policies are compared by the time to a target
value, over all orders.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import NamedTuple

from hpo_ops.core import Allocator, Scheduler, derive_seed
from hpo_ops.curves import CurvePredictor
from hpo_ops.simulator._cluster_capacity import Cluster
from hpo_ops.simulator._forecast_cache import MemoPredictor
from hpo_ops.simulator._replay_result import Replay
from hpo_ops.simulator._simulation import simulate
from hpo_ops.simulator.traces import Traces


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A scheduler, an allocator and a flow (rounds or rolling), to be compared with others.

    Attributes:
        scheduler: Decides which trials run, and for how long.
        allocator: Decides how many resource units each trial gets; if None, each trial gets one.
        rounds: Whether the study runs in rounds (batches of trials with a barrier after each).
        at_barrier: Whether the scheduler decides only between rounds.
        predictor: The curve predictor of this policy; if None, the predictor that is passed to the
            comparison is used.
    """

    scheduler: Scheduler
    allocator: Allocator | None = None
    rounds: bool = False
    at_barrier: bool = False
    predictor: CurvePredictor | None = None


class Draw(NamedTuple):
    """The traces of a study in one order, and the target of their replay (None for no target)."""

    traces: Traces
    target: float | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of replaying the trials in one order under one policy.

    Attributes:
        policy: Name of the policy.
        order: Index of the order; 0 is the order in the traces.
        time_to_target: Seconds until the target was reached; None if it was not reached.
        time_to_best: Seconds until the best value was reached; None if no value was reported.
        makespan: Seconds until the study ended.
        best: Best value at the end; None if no value was reported.
        unit_seconds: Sum over all segments (uninterrupted executions of a trial) of the number of
            resource units times the duration in seconds.
        utilization: Share of the available unit-seconds that segments held.
        trials: Number of trials that were started.
        events: Number of reports.
        restarts: Number of times a running segment was restarted because its width changed.
    """

    policy: str
    order: int
    time_to_target: float | None
    time_to_best: float | None
    makespan: float
    best: float | None
    unit_seconds: float
    utilization: float
    trials: int
    events: int
    restarts: int

    @property
    def seconds(self) -> float:
        """Seconds to the target, or to the end of the study if the target was not reached."""
        return self.makespan if self.time_to_target is None else self.time_to_target


class Spread(NamedTuple):
    """The distribution of a quantity over all orders: mean, standard deviation and quantiles."""

    mean: float
    sd: float
    median: float
    low: float
    """The 10th percentile."""
    high: float
    """The 90th percentile."""
    least: float
    most: float

    def scaled(self, factor: float) -> Spread:
        """Returns the distribution with all its numbers multiplied by a factor."""
        return Spread(*(number * factor for number in self))


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The distributions of the results of one policy over all orders.

    Attributes:
        policy: Name of the policy.
        orders: Number of orders that were replayed.
        reached: Number of orders in which the target was reached.
        seconds: Seconds to the target, or to the end of the study if the target was not reached.
        makespan: Seconds until the study ended.
        best: Best value at the end; None if no value was reported in any order.
        unit_seconds: Unit-seconds that segments held.
        utilization: Share of the available unit-seconds that segments held.
        trials: Number of trials that were started.
    """

    policy: str
    orders: int
    reached: int
    seconds: Spread
    makespan: Spread
    best: Spread | None
    unit_seconds: Spread
    utilization: Spread
    trials: Spread


def compare(
    traces: Traces,
    policies: Mapping[str, Scheduler | Policy],
    *,
    cluster: Cluster,
    orders: int = 25,
    seed: int = 0,
    predictor: CurvePredictor | None = None,
    target: float | None = None,
    deadline_seconds: float | None = None,
    stop_at_target: bool = True,
) -> list[Outcome]:
    """Replays the traces in the same orders under each policy.

    Policies share a cache of forecasts over all orders; a policy with a predictor of its own has a
    cache of its own.

    Args:
        traces: The reports of every trial.
        policies: The policies by name.
        cluster: The simulated cluster.
        orders: Number of orders; the first is the order in the traces.
        seed: Seed of the other orders.
        predictor: Forecasts learning curves for policies without a predictor of their own.
        target: Value of the objective to reach; None for no target.
        deadline_seconds: Seconds after which a study ends; None for no deadline.
        stop_at_target: Whether a study ends when its target is reached.

    Returns:
        An outcome for each order and policy.
    """
    made = replays(
        orders_of(traces, orders, seed=seed, target=target),
        policies,
        cluster=cluster,
        predictor=None if predictor is None else MemoPredictor(predictor),
        deadline_seconds=deadline_seconds,
        stop_at_target=stop_at_target,
    )
    return [outcome_of(name, order, replay) for name, order, replay in made]


def orders_of(
    traces: Traces, orders: int, *, seed: int = 0, target: float | None = None
) -> Iterator[Draw]:
    """Yields the same trials in several orders; the first is the order in the traces."""
    for order in range(orders):
        number = order if seed == 0 or order == 0 else derive_seed(seed, "order", order)
        yield Draw(traces.reorder(number), target)


def replays(
    draws: Iterable[Draw],
    policies: Mapping[str, Scheduler | Policy],
    *,
    cluster: Cluster,
    predictor: CurvePredictor | None = None,
    deadline_seconds: float | None = None,
    stop_at_target: bool = True,
) -> Iterator[tuple[str, int, Replay]]:
    """Replays each draw (traces in one order, and a target) under each policy.

    Yields:
        The policy's name, the index of the draw, and the replay.
    """
    made = {
        name: policy if isinstance(policy, Policy) else Policy(scheduler=policy)
        for name, policy in policies.items()
    }
    own = {
        name: MemoPredictor(chosen.predictor)
        for name, chosen in made.items()
        if chosen.predictor is not None
    }
    for number, draw in enumerate(draws):
        for name, chosen in made.items():
            yield (
                name,
                number,
                simulate(
                    draw.traces,
                    chosen.scheduler,
                    cluster=cluster,
                    allocator=chosen.allocator,
                    predictor=own.get(name, predictor),
                    target=draw.target,
                    deadline_seconds=deadline_seconds,
                    stop_at_target=stop_at_target,
                    at_barrier=chosen.at_barrier,
                    rounds=chosen.rounds,
                ),
            )


def outcome_of(policy: str, order: int, replay: Replay) -> Outcome:
    """Returns the outcome of a replay under a policy, in the order with this index."""
    return Outcome(
        policy=policy,
        order=order,
        time_to_target=replay.time_to_target,
        time_to_best=replay.best[-1][0] if replay.best else None,
        makespan=replay.makespan,
        best=replay.best[-1][1] if replay.best else None,
        unit_seconds=replay.unit_seconds,
        utilization=replay.utilization,
        trials=len(replay.study.trials),
        events=replay.events,
        restarts=replay.restarts,
    )


def summarize(outcomes: Sequence[Outcome]) -> list[Summary]:
    """Returns a summary for each policy, in the sequence in which policies first appear."""
    rows = []
    for policy in dict.fromkeys(outcome.policy for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.policy == policy]
        best = [outcome.best for outcome in mine if outcome.best is not None]
        rows.append(
            Summary(
                policy=policy,
                orders=len(mine),
                reached=sum(outcome.time_to_target is not None for outcome in mine),
                seconds=spread_of([outcome.seconds for outcome in mine]),
                makespan=spread_of([outcome.makespan for outcome in mine]),
                best=spread_of(best) if best else None,
                unit_seconds=spread_of([outcome.unit_seconds for outcome in mine]),
                utilization=spread_of([outcome.utilization for outcome in mine]),
                trials=spread_of([outcome.trials for outcome in mine]),
            )
        )
    return rows


def spread_of(values: Sequence[float]) -> Spread:
    """Returns the distribution of one or more numbers.

    >>> spread_of([1.0, 2.0, 3.0]).high
    2.8
    """
    ordered = sorted(values)
    return Spread(
        mean=fmean(ordered),
        sd=stdev(ordered) if len(ordered) > 1 else 0.0,
        median=median(ordered),
        low=_quantile(ordered, 0.1),
        high=_quantile(ordered, 0.9),
        least=ordered[0],
        most=ordered[-1],
    )


def _quantile(ordered: Sequence[float], q: float) -> float:
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def oracle_seconds(traces: Traces, target: float, *, cluster: Cluster) -> float | None:
    """Returns the seconds in which the fastest trial reaches a target on one resource unit.

    No scheduler that gives each trial one unit can be faster. Returns None if no trial reaches the
    target.
    """
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
