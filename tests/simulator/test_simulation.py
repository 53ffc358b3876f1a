"""The event loop, with small studies whose times are known, and the acceptance checks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from statistics import fmean

import pytest

from hpo_ops.allocators import DynamicFluid, StaticFluid, Uniform
from hpo_ops.core import (
    Action,
    Decision,
    Direction,
    Member,
    Scheduler,
    Study,
    Trial,
    TrialGroup,
    TrialState,
)
from hpo_ops.curves import ProjectedEnsemble
from hpo_ops.schedulers import (
    Asha,
    AshaPromoting,
    Bandit,
    Default,
    EarlyTerm,
    Halving,
    Hyperband,
    HyperSched,
    Median,
    Pbt,
    Pop,
)
from hpo_ops.schedulers.hypersched import Variant
from hpo_ops.simulator import (
    Cluster,
    Traces,
    TrialTrace,
    image_study,
    simulate,
    slow_study,
    uneven_study,
)


def traces_of(*steps: int, seconds: float = 1.0) -> Traces:
    """Trials with so many steps of one second."""
    trials = tuple(
        TrialTrace(tuple(0.1 + step / 100 for step in range(count)), (seconds,) * count)
        for count in steps
    )
    return Traces("small", "accuracy", Direction.MAXIMIZE, trials)


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


SCHEDULERS: list[Scheduler] = [
    Default(), Median(max_steps=20), Asha(max_steps=20), AshaPromoting(max_steps=20),
    Hyperband(max_steps=20), Halving(max_steps=9), Bandit(boundary=5, max_steps=20),
    EarlyTerm(boundary=5, max_steps=20), Pop(boundary=5, max_steps=20),
    *(HyperSched(max_steps=20, variant=variant) for variant in Variant),
]  # fmt: skip


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("barrier", [False, True])
def test_the_same_again_gives_the_same_log(scheduler: Scheduler, barrier: bool) -> None:  # HD-13
    traces = image_study(seed=5, trials=15, steps=20)
    cluster = Cluster(units=3, resume_seconds=2.0, preemptions=(500.0,))
    logs = [
        simulate(
            traces,
            scheduler,
            cluster=cluster,
            predictor=ProjectedEnsemble(samples=200),
            deadline_seconds=9000.0,
            at_barrier=barrier,
        ).to_jsonl()
        for _ in range(2)
    ]
    assert logs[0] == logs[1]
    assert logs[0].count("\n") > 20


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda s: type(s).__name__)
def test_no_more_trials_run_than_there_are_units(scheduler: Scheduler) -> None:
    traces = image_study(seed=6, trials=20, steps=20)
    replay = simulate(
        traces, scheduler, cluster=Cluster(units=3), predictor=ProjectedEnsemble(samples=200)
    )
    for start in {interval.start for interval in replay.intervals}:
        assert sum(i.start <= start < i.end for i in replay.intervals) <= 3
    assert not replay.study.in_state(TrialState.RUNNING)


def test_copies_of_trials_cannot_be_replayed() -> None:
    traces = image_study(seed=5, trials=15, steps=20)
    with pytest.raises(ValueError, match="a trace does not hold copies"):
        simulate(
            traces,
            Pbt(population=5, max_steps=20, interval=2, share=0.4),
            cluster=Cluster(units=5),
        )


# -- POP -------------------------------------------------------------------------------------


def test_a_suspended_trial_goes_on_at_the_same_step_with_its_history() -> None:  # HD-9
    traces = image_study(seed=2, trials=30, steps=60)
    replay = simulate(
        traces,
        Pop(max_steps=60, boundary=5),
        cluster=Cluster(units=4, resume_seconds=3.0),
        predictor=ProjectedEnsemble(samples=300),
        target=0.75,
    )
    by_trial: dict[int, list[tuple[int, int]]] = {}
    for interval in sorted(replay.intervals, key=lambda item: item.start):
        by_trial.setdefault(interval.trial, []).append((interval.from_step, interval.to_step))
    resumed = [segments for segments in by_trial.values() if len(segments) > 1]
    assert resumed
    for segments in resumed:
        assert all(b[0] == a[1] for a, b in pairwise(segments))
    for trial in replay.study.trials:
        assert [seen.step for seen in trial.observations] == list(range(1, trial.step + 1))


@dataclass(frozen=True)
class Greedy:
    """A policy of a user's: stops whatever is below the best at every fifth step."""

    max_steps: int | None = 20

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        count = min(free, study.unstarted)
        return TrialGroup(tuple(Member(reason="new") for _ in range(count)), "as many as fit")

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.step % 5 == 0 and study.best is not trial:
            return Decision(Action.STOP, "not the best")
        return Decision(Action.CONTINUE, "no fifth step")


@dataclass(frozen=True)
class Turns:
    """Another one: every trial gets one step, then the next one."""

    max_steps: int | None = 20

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        paused = list(study.in_state(TrialState.PAUSED))
        waiting: list[int | None] = [*[None] * study.unstarted, *paused]
        members = tuple(Member(trial=number, reason="its turn") for number in waiting[:free])
        return TrialGroup(members, "in turn")

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        return Decision(Action.PAUSE, "the next one's turn")


@pytest.mark.parametrize("scheduler", [Greedy(), Turns()], ids=["greedy", "turns"])
def test_a_users_policy_needs_max_steps_and_two_methods(scheduler: Scheduler) -> None:  # HD-15
    traces = image_study(seed=1, trials=8, steps=20)
    replay = simulate(traces, scheduler, cluster=Cluster(units=2))
    assert len(replay.study.trials) == 8
    assert not replay.study.in_state(TrialState.RUNNING)
    if isinstance(scheduler, Turns):
        assert all(trial.step == 20 for trial in replay.study.trials)


# -- HyperSched ------------------------------------------------------------------------------

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


def test_no_trial_starts_after_the_bound_and_all_stop_at_the_deadline() -> None:  # HS-9
    deadline = 900.0
    replay = simulate(
        slow_study(seed=2),
        HyperSched(min_steps=2, max_steps=200, variant=Variant.STOPPING),
        cluster=Cluster(units=4),
        deadline_seconds=deadline,
    )
    firsts = [entry.time for entry in replay.entries() if entry.kind == "start"]
    assert max(firsts) < deadline / 3  # the furthest has trained since 0, and 4 times that is left
    assert max(interval.end for interval in replay.intervals) <= deadline


def test_more_is_reached_by_a_deadline_with_fewer_trials() -> None:  # HS-12
    best: dict[str, list[float]] = {"asha": [], "hypersched": []}
    trials: dict[str, list[int]] = {"asha": [], "hypersched": []}
    cluster = Cluster(units=4, max_width=4, resume_seconds=10.0, speedups=TABLE)
    for seed in range(5):
        traces = slow_study(seed=seed)
        runs = {
            "asha": simulate(
                traces, Asha(min_steps=2, max_steps=200, eta=4), cluster=cluster,
                deadline_seconds=1800.0,
            ),
            "hypersched": simulate(
                traces,
                HyperSched(min_steps=2, max_steps=200, variant=Variant.STOPPING),
                cluster=cluster,
                allocator=Uniform(speedups=TABLE),
                deadline_seconds=1800.0,
            ),
        }  # fmt: skip
        for name, run in runs.items():
            best[name].append(run.best[-1][1])
            trials[name].append(len(run.study.trials))
    assert fmean(best["hypersched"]) >= fmean(best["asha"])
    assert fmean(trials["hypersched"]) < fmean(trials["asha"])


def test_a_study_uses_its_time_when_the_furthest_trials_are_whole() -> None:
    cluster = Cluster(units=8, max_width=8, resume_seconds=10.0, speedups=(*TABLE, 4.29))
    ends: dict[bool, list[float]] = {True: [], False: []}
    best: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(5):
        for readmit in ends:
            replay = simulate(
                slow_study(seed=seed),
                HyperSched(min_steps=2, max_steps=200, readmit=readmit),
                cluster=cluster,
                allocator=Uniform(speedups=(*TABLE, 4.29)),
                deadline_seconds=3600.0,
            )
            ends[readmit].append(replay.makespan)
            best[readmit].append(replay.best[-1][1])
    assert max(ends[False]) < 2700.0  # as published
    assert min(ends[True]) > 3300.0
    assert fmean(best[True]) > fmean(best[False])


# -- Fluid -----------------------------------------------------------------------------------


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
