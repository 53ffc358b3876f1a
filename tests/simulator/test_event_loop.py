"""The event loop of a simulation."""

from __future__ import annotations

from hpo_ops.core import (
    TrialState,
)
from hpo_ops.schedulers import (
    Default,
)
from hpo_ops.simulator import (
    Cluster,
    simulate,
)
from tests.simulator.plain_traces import traces_of


def test_trials_run_one_after_another_on_each_unit() -> None:
    replay = simulate(traces_of(3, 2, 2, 1), Default(), cluster=Cluster(units=2))
    assert [(i.trial, i.start, i.end) for i in sorted(replay.intervals)] == [
        (0, 0.0, 3.0), (1, 0.0, 2.0), (2, 2.0, 4.0), (3, 3.0, 4.0)
    ]  # fmt: skip
    assert replay.makespan == 4.0
    assert replay.utilization == 1.0
    assert replay.events == 8


def test_starting_and_resuming_take_time() -> None:
    cluster = Cluster(units=1, start_seconds=5.0, resume_seconds=2.0, preemptions=(6.5,))
    replay = simulate(traces_of(3), Default(), cluster=cluster)
    # 5 s to start, a step, half a step lost, 2 s to resume, two steps
    assert replay.makespan == 6.5 + 2.0 + 2.0
    assert [interval.from_step for interval in replay.intervals] == [0, 1]


def test_an_interrupted_trial_goes_back_to_its_checkpoint_and_reports_nothing_twice() -> None:
    cluster = Cluster(units=1, checkpoint_every=4, preemptions=(7.5,))
    replay = simulate(traces_of(10), Default(), cluster=cluster)
    assert replay.makespan == 7.5 + 6.0
    steps = [seen.step for seen in replay.study.trials[0].observations]
    assert steps == list(range(1, 11))


def test_the_study_ends_at_its_target() -> None:
    replay = simulate(traces_of(50, 50), Default(), cluster=Cluster(units=1), target=0.2)
    assert replay.time_to_target == 11.0
    assert replay.makespan == 11.0


def test_the_study_ends_at_its_deadline() -> None:
    replay = simulate(traces_of(50), Default(), cluster=Cluster(units=1), deadline_seconds=7.5)
    assert replay.makespan == 7.5
    assert replay.study.trials[0].step == 7


def test_units_come_and_go() -> None:
    cluster = Cluster(units=2, capacity_changes=((1.5, 1), (4.5, 2)))
    replay = simulate(traces_of(4, 4), Default(), cluster=cluster)
    assert [trial.state for trial in replay.study.trials] == [TrialState.COMPLETED] * 2
    assert replay.makespan == 4.0 + 3.0
    assert max(sum(i.start <= t < i.end for i in replay.intervals) for t in (2.0, 3.0)) == 1


def test_no_unit_at_all_waits_for_one() -> None:
    cluster = Cluster(units=1, capacity_changes=((0.5, 0), (10.0, 1)))
    replay = simulate(traces_of(2), Default(), cluster=cluster)
    assert replay.makespan == 12.0
