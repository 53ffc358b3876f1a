"""Policies that look ahead and policies that share, with trials as pods."""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from itertools import pairwise

from kubernetes.utils.quantity import parse_quantity

from hpo_ops.client import Progress, SegmentSummary
from tests.e2e.airflow import wait_for
from tests.e2e.test_live_policies import heights, most_units, segments_of
from tests.k8s.lab import PodLab, Watch
from tests.k8s.stories import Story, each

SMALL = {"cpu": "20m", "memory": "64Mi"}


def pop_runs_promising_pods_first_and_kills_poor_ones(lab: PodLab) -> None:
    """Forecasts are made by the agents, in the pods."""
    name = lab.add_pod_study(
        "k8s_pop",
        **heights(0.12, 0.4, 0.97, 0.3, pause=0.7),
        metric={"name": "accuracy", "direction": "maximize", "target": 0.94},
        scheduler={"name": "pop", "max_steps": 40, "boundary": 5, "kill_threshold": 0.15},
        parallelism=2,
    )
    study = lab.ended(name, lab.trigger(name))
    assert "target" in study.reason
    assert study.best is not None
    assert study.best.trial == 2
    trials = lab.trials(study)
    assert trials[0].reason == "not learning: at or below the kill threshold 0.15"
    assert trials[1].state == "pruned"
    assert "to reach the target is below 0.05" in trials[1].reason
    assert trials[1].step < 40
    assert trials[2].segments == 1  # the promising one never had to wait
    forecasts = [event for event in lab.events(study, "forecast") if event["trial"] == 1]
    assert abs(forecasts[0]["data"]["value"] - 0.4) < 0.1


def pods_shrink_and_grow_with_the_pool_and_the_leader_gets_all_of_it(lab: PodLab) -> None:
    """HyperSched on a pool of its own, whose capacity changes while the deadline comes near."""
    pool, name = "changing", "k8s_deadline"
    templates = lab.stack.dags.parent / "k8s_pod_templates"
    shutil.copy(templates / "trial_cpu.yaml", templates / f"trial_{pool}.yaml")
    set_capacity(lab, pool, 4)
    lab.add_pod_study(
        name,
        **heights(0.9, 0.2, 0.21, pause=4.0),
        scheduler={"name": "hypersched", "max_steps": 200, "eta": 3, "readmit": False},
        allocator={"name": "uniform", "cool_down": 2},
        budget={"wall": "2h"},
        parallelism=3,
        resources={**SMALL, "pool": pool},
    )
    with Watch(lab, name) as watch:
        run_id = lab.trigger(name)
        wait_for(lambda: lab.found(name, run_id), what="the study")
        study = lab.study(name, run_id)
        # Of three trials the first has what is over; when the others pause it gets all.
        wait_for_units(lab, study, 4)
        set_capacity(lab, pool, 1)
        wait_for_units(lab, study, 1)
        set_capacity(lab, pool, 3)
        wait_for_units(lab, study, 3)
        wall = lab.study(name, run_id).seconds + 15
        lab.session.gateway.change(study.id, {"budget.wall": wall})
        study = lab.ended(name, run_id)
    assert study.counts["failed"] == 0
    leader = leaders(lab, study)
    assert leader[0].units == 2
    assert [item.units for item in leader[-3:]] == [4, 1, 3]
    for earlier, later in pairwise(leader):
        assert later.from_step == earlier.step  # nothing is trained twice
    assert most_units(segments_of(lab, study.id)) <= 4
    # A pod on w units has w times the cores and the memory.
    asked = [pod.spec.containers[0].resources.requests for pod in watch.seen.values()][-3:]
    cores = [parse_quantity(amounts["cpu"]) * 1000 for amounts in asked]
    mebibytes = [parse_quantity(amounts["memory"]) / 2**20 for amounts in asked]
    assert (cores, mebibytes) == ([80, 20, 60], [256, 64, 192])
    # The others could not matter any more when the deadline was near.
    for trial in lab.trials(study)[1:]:
        assert trial.state == "pruned"
        assert "but a new trial needs more than" in trial.reason
    assert study.best is not None
    assert study.best.trial == 0


def set_capacity(lab: PodLab, pool: str, units: int) -> None:
    """Says what a pool has, as a person does."""
    done = lab.hpo("pools", f"{pool}={units}")
    assert done.returncode == 0, done.stderr


def leaders(lab: PodLab, study: Progress) -> list[SegmentSummary]:
    return [item for item in segments_of(lab, study.id) if item.trial == 0]


def wait_for_units(lab: PodLab, study: Progress, units: int) -> None:
    """Waits until the first trial has trained a step on so many units."""

    def has_them() -> bool:
        segments = leaders(lab, study)
        if not segments or segments[-1].units != units:
            return False
        return lab.trials(study)[0].step > segments[-1].from_step

    wait_for(has_them, what=f"a step of the leader on {units} units")


@each(
    [
        pop_runs_promising_pods_first_and_kills_poor_ones,
        pods_shrink_and_grow_with_the_pool_and_the_leader_gets_all_of_it,
    ]
)
def test_live_policies(told: dict[Story, Future[None]], story: Story) -> None:
    told[story].result()
