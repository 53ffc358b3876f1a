"""The simulated cluster under allocators."""

from __future__ import annotations

from fractions import Fraction
from statistics import fmean

import pytest

from hpo_ops.allocators import DynamicFluid, StaticFluid, Uniform
from hpo_ops.core import (
    TrialState,
)
from hpo_ops.schedulers import (
    Default,
    Halving,
    HyperSched,
)
from hpo_ops.schedulers._hypersched import Variant
from hpo_ops.simulator import (
    Cluster,
    Traces,
    simulate,
    slow_study,
    uneven_study,
)
from tests.simulator.plain_traces import traces_of

TABLE = (1.0, 1.77, 2.93)


def test_a_resized_trial_keeps_its_steps_and_best_score() -> None:  # HS-10
    replay = simulate(
        slow_study(seed=1, trials=40, steps=60),
        HyperSched(min_steps=2, max_steps=60, variant=Variant.STOPPING),
        cluster=Cluster(units=4, max_width=4, resume_seconds=10.0, speedups=TABLE),
        allocator=Uniform(speedups=TABLE),
        deadline_seconds=1500.0,
    )
    assert replay.restarts > 0
    widths = {interval.width for interval in replay.intervals}
    assert max(widths) > 1
    for trial in replay.study.trials:
        assert [seen.step for seen in trial.observations] == list(range(1, trial.step + 1))
        assert trial.best_score == max(seen.score for seen in trial.observations)


def work(*amounts: int) -> Traces:
    """Trials with so many units of work, in steps of a tenth."""
    return traces_of(*(10 * amount for amount in amounts), seconds=0.1)


FIVE = Cluster(units=5, max_share=2, max_width=4)


@pytest.mark.parametrize("allocator", [StaticFluid(), DynamicFluid(min_seconds=0.2)])
def test_the_toy_example_takes_two_with_all_units_in_use(  # FL-1
    allocator: StaticFluid | DynamicFluid,
) -> None:
    replay = simulate(work(6, 2, 1, 1), Default(), cluster=FIVE, allocator=allocator)
    assert replay.makespan == pytest.approx(2.0)
    assert replay.utilization == pytest.approx(1.0)


def test_packed_trials_pay_the_overhead() -> None:
    cluster = Cluster(units=1, max_share=2, max_width=1, sharing_overhead=(0.1,))
    replay = simulate(work(1, 1), Default(), cluster=cluster, allocator=StaticFluid())
    assert replay.makespan == pytest.approx(2.2)


def test_ten_equal_trials_run_eight_at_a_time() -> None:  # FL-7
    cluster = Cluster(units=4, max_share=2, max_width=4)
    replay = simulate(work(*[1] * 10), Default(), cluster=cluster, allocator=StaticFluid())
    assert all(trial.state is TrialState.COMPLETED for trial in replay.study.trials)
    starts = sorted(interval.start for interval in replay.intervals)
    assert starts[:8] == [0.0] * 8
    assert starts[8] > 0
    for moment in {interval.start for interval in replay.intervals}:
        held: dict[int, int] = {}
        for interval in replay.intervals:
            if interval.start <= moment < interval.end:
                for unit in interval.units:
                    held[unit] = held.get(unit, 0) + 1
        assert max(held.values()) <= 2


def test_more_units_widen_a_running_trial_from_its_checkpoint() -> None:  # FL-9
    cluster = Cluster(
        units=5, max_share=2, max_width=4, capacity_changes=((0.5, 8),), checkpoint_every=2
    )
    replay = simulate(
        work(6, 2, 1, 1), Default(), cluster=cluster, allocator=DynamicFluid(min_seconds=0.2)
    )
    long = sorted((i for i in replay.intervals if i.trial == 0), key=lambda item: item.start)
    assert [interval.width for interval in long][:2] == [Fraction(3), Fraction(4)]
    assert 0 <= long[0].to_step - long[1].from_step <= 2
    assert all(trial.state is TrialState.COMPLETED for trial in replay.study.trials)


def test_unchanged_widths_restart_nothing() -> None:  # FL-10
    replay = simulate(
        work(6, 2, 1, 1), Default(), cluster=FIVE, allocator=DynamicFluid(min_seconds=0.2)
    )
    assert replay.restarts == 0


def test_fewer_units_pause_one_and_fail_none() -> None:  # FL-12
    cluster = Cluster(units=5, max_share=2, max_width=4, capacity_changes=((0.5, 2),))
    replay = simulate(
        work(6, 2, 1, 1), Default(), cluster=cluster, allocator=DynamicFluid(min_seconds=0.2)
    )
    queued = [entry.trial for entry in replay.entries() if entry.kind == "queued"]
    assert len(queued) >= 1
    assert all(trial.state is TrialState.COMPLETED for trial in replay.study.trials)


def test_fluid_shortens_synchronous_halving_on_average() -> None:
    alone = Cluster(units=4)
    shared = Cluster(units=4, max_share=2, max_width=4, speedups=TABLE, sharing_overhead=(0.1,))
    ratios, uses = [], []
    for seed in range(10):
        traces = uneven_study(seed=seed)
        fifo = simulate(traces, Halving(max_steps=27), cluster=alone)
        fluid = simulate(traces, Halving(max_steps=27), cluster=shared, allocator=StaticFluid())
        assert len(fluid.study.in_state(TrialState.COMPLETED)) == 1
        ratios.append(fluid.makespan / fifo.makespan)
        uses.append(fluid.utilization / fifo.utilization)
    assert fmean(ratios) < 0.85
    assert fmean(uses) > 1.3
