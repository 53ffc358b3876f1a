"""Studies in virtual time, under every scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import pytest

from hpo_ops.allocators import Uniform
from hpo_ops.core import (
    Action,
    Decision,
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
from hpo_ops.schedulers._hypersched import Variant
from hpo_ops.simulator import (
    Cluster,
    image_study,
    simulate,
    slow_study,
)

SCHEDULERS: list[Scheduler] = [
    Default(), Median(max_steps=20), Asha(max_steps=20), AshaPromoting(max_steps=20),
    Hyperband(max_steps=20), Halving(max_steps=9), Bandit(boundary=5, max_steps=20),
    EarlyTerm(boundary=5, max_steps=20), Pop(boundary=5, max_steps=20),
    *(HyperSched(max_steps=20, variant=variant) for variant in Variant),
]  # fmt: skip

TABLE = (1.0, 1.77, 2.93)


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


def test_a_study_uses_its_time_when_the_furthest_trials_have_completed() -> None:
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
