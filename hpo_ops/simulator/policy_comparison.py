"""Several policies over many orders of the same trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import NamedTuple

from hpo_ops.core import Allocator, Scheduler, derive_seed
from hpo_ops.curves import CurvePredictor
from hpo_ops.simulator.cluster_capacity import Cluster
from hpo_ops.simulator.engine import simulate
from hpo_ops.simulator.forecast_cache import MemoPredictor
from hpo_ops.simulator.replay_result import Replay
from hpo_ops.simulator.traces import Traces


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A scheduler, with an allocator if it has one, and the flow that it runs in.

    Attributes:
        scheduler: Who runs.
        allocator: How much each gets; one unit each without.
        rounds: Whether there is a barrier between rounds.
        at_barrier: Whether it is decided there only.
        predictor: Who forecasts for it; None for whoever forecasts for all.
    """

    scheduler: Scheduler
    allocator: Allocator | None = None
    rounds: bool = False
    at_barrier: bool = False
    predictor: CurvePredictor | None = None


class Draw(NamedTuple):
    """Trials in an order, and the value to reach with them."""

    traces: Traces
    target: float | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one policy did with one order of trials.

    Attributes:
        policy: Name of the policy.
        order: Which order.
        time_to_target: Seconds; None where the target was not reached.
        time_to_best: Seconds until the best value of all; None without any.
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
        """Time to the target, or until the study ended without."""
        return self.makespan if self.time_to_target is None else self.time_to_target


class Spread(NamedTuple):
    """A figure over all orders: its mean, its deviation, and the range of most."""

    mean: float
    sd: float
    median: float
    low: float
    """One in ten is below."""
    high: float
    """One in ten is above."""
    least: float
    most: float

    def scaled(self, factor: float) -> Spread:
        """The same in another unit."""
        return Spread(*(number * factor for number in self))


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What one policy did over all orders.

    Attributes:
        policy: Its name.
        orders: How many there were.
        reached: In how many of them the target was reached.
        seconds: Time to the target, or until the study ended without.
        makespan: Time until the study ended.
        best: Best value at the end; None without any.
        unit_seconds: Units held, times how long.
        utilization: Share of the units' time that was held.
        trials: Trials that were started.
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
    """Replays the traces under each policy, in the same orders, the first being their own.

    Forecasts are made once for each curve, whatever the policy and the order.
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
    """The same trials in so many orders; the first is their own."""
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
    """Each draw under each policy: the policy's name, the number of the draw, the replay."""
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
    """The figures of a replay."""
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
    """A row for each policy, in the order in which they came."""
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
    """The spread of one figure or more.

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
