"""Policies that look ahead and policies that share, in live studies under a real Airflow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hpo_ops.client import SegmentSummary
from tests.e2e.airflow import Lab, wait_for
from tests.e2e.test_rolling import hpo, started

pytestmark = pytest.mark.e2e

UNITS = 4


def heights(*tops: float, pause: float) -> dict[str, Any]:
    """Trials whose curves level off at these heights, in this order."""
    return {
        "command": "python curve.py",
        "space": {"top": {"float": [0.0, 1.0]}, "pause": {"choices": [pause]}},
        "enqueue": [{"top": top, "pause": pause} for top in tops],
        "trials": len(tops),
    }


@pytest.fixture
def units(lab: Lab) -> Iterator[None]:
    """So many units on this machine, whatever it has."""
    before = {pool.name: pool for pool in lab.session.gateway.pools()}["local"].capacity
    assert hpo(lab, "pools", f"local={UNITS}").returncode == 0
    yield
    assert hpo(lab, "pools", f"local={before}").returncode == 0


def test_pop_runs_promising_trials_first_and_kills_poor_ones(lab: Lab) -> None:
    name = lab.add_study(
        "e2e_pop",
        **heights(0.12, 0.4, 0.97, 0.45, 0.5, 0.3, pause=0.4),
        metric={"name": "accuracy", "direction": "maximize", "target": 0.94},
        scheduler={"name": "pop", "max_steps": 40, "boundary": 5, "kill_threshold": 0.15},
        parallelism=2,
    )
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    study = lab.study(name, run_id)
    assert study.reason.startswith("reached the target") or "target" in study.reason
    assert study.best is not None
    assert study.best.trial == 2
    gateway = lab.session.gateway
    trials = {trial.trial: trial for trial in gateway.trials(study.id)}
    assert trials[0].state == "pruned"
    assert trials[0].reason == "not learning: at or below the kill threshold 0.15"
    assert trials[1].state == "pruned"
    assert "to reach the target, below 0.05" in trials[1].reason
    assert trials[1].step < 40
    assert trials[2].segments == 1  # the promising one never had to wait
    # The same reason is in the task's log, in the ledger's decisions and in its events.
    assert trials[1].reason in hpo(lab, "logs", name, "--trial", "1").stdout
    decisions = gateway.request("GET", f"/studies/{study.id}/trials/1/decisions")
    assert (decisions[-1]["action"], decisions[-1]["reason"]) == ("stop", trials[1].reason)
    events = gateway.request("GET", f"/studies/{study.id}/events")
    made = [event for event in events if event["kind"] == "forecast" and event["trial"] == 1]
    assert made
    assert made[0]["data"]["by_step"] == 40
    assert abs(made[0]["data"]["value"] - 0.4) < 0.1


def segments_of(lab: Lab, study_id: int) -> list[SegmentSummary]:
    answer = lab.session.gateway.request("GET", f"/studies/{study_id}/segments")
    return [SegmentSummary.from_dict(item) for item in answer]


def most_units(segments: list[SegmentSummary]) -> float:
    """The most that were held at one moment."""
    moments = [segment.start for segment in segments]
    return max(
        sum(
            item.units
            for item in segments
            if item.start <= moment and (item.end is None or item.end > moment)
        )
        for moment in moments
    )


def test_the_leader_gets_all_units_when_the_deadline_is_near(lab: Lab, units: None) -> None:
    name = lab.add_study(
        "e2e_deadline",
        **heights(0.9, *([0.2] * 11), pause=1.0),
        scheduler={"name": "hypersched", "max_steps": 80, "eta": 3, "variant": "stopping"},
        allocator={"name": "uniform", "cool_down": 2},
        budget={"wall": "1h"},
        parallelism=2,
    )
    run_id = lab.trigger(name)
    study = started(lab, name, run_id)

    def leader_steps() -> bool:
        return lab.session.gateway.trials(study.id)[0].step >= 8

    wait_for(leader_steps, what="some steps of the leader")
    assert segments_of(lab, study.id)[0].units == 2  # an even split
    wall = lab.study(name, run_id).seconds + 40
    lab.session.gateway.change(study.id, {"budget.wall": wall})
    assert lab.wait(name, run_id) == "success"
    segments = segments_of(lab, study.id)
    leader = [item for item in segments if item.trial == 0]
    assert [item.units for item in leader] == [2, 4]
    assert leader[1].from_step == leader[0].step  # nothing is trained twice
    assert leader[0].outcome == "paused"
    assert leader[0].reason.startswith("2 to 4 units: ")
    assert most_units(segments) <= UNITS
    assert len({item.trial for item in segments}) < 12  # no trial starts that cannot matter
    log = hpo(lab, "logs", name, "--trial", "0").stdout
    assert leader[0].reason in log
    assert f"goes on from step {leader[0].step} on 4 units" in log
    study = lab.study(name, run_id)
    assert study.best is not None
    assert study.best.trial == 0
