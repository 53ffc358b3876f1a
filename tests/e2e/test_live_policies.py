"""Policies that look ahead and policies that share, in live studies under a real Airflow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hpo_ops.client import SegmentSummary
from tests.e2e.airflow import Lab, wait_for
from tests.e2e.test_rolling import started

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
    assert lab.hpo("pools", f"local={UNITS}").returncode == 0
    yield
    assert lab.hpo("pools", f"local={before}").returncode == 0


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
    assert "to reach the target is below 0.05" in trials[1].reason
    assert trials[1].step < 40
    assert trials[2].segments == 1  # the promising one never had to wait
    # The same reason is in the task's log, in the ledger's decisions and in its events.
    assert trials[1].reason in lab.hpo("logs", name, "--trial", "1").stdout
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
        **heights(0.9, 0.2, 0.21, pause=1.0),
        scheduler={"name": "hypersched", "max_steps": 100, "eta": 3},
        allocator={"name": "uniform", "cool_down": 2},
        budget={"wall": "1h"},
        parallelism=3,
    )
    run_id = lab.trigger(name)
    study = started(lab, name, run_id)

    def leader_steps() -> bool:
        return lab.session.gateway.trials(study.id)[0].step >= 8

    wait_for(leader_steps, what="some steps of the leader")
    wall = lab.study(name, run_id).seconds + 40
    lab.session.gateway.change(study.id, {"budget.wall": wall})
    assert lab.wait(name, run_id) == "success"
    segments = segments_of(lab, study.id)
    leader = [item for item in segments if item.trial == 0]
    assert leader[0].units == 2  # of three trials the first has what is over
    assert leader[-1].units == 4
    assert leader[-1].from_step == leader[-2].step  # nothing is trained twice
    assert leader[-2].outcome == "paused"
    assert " to 4 units: 4 units dealt in turn to 1 trials, the best first" in leader[-2].reason
    assert most_units(segments) <= UNITS
    # The others paused at the first rung, and were not good enough when the leader was whole.
    for trial in lab.session.gateway.trials(study.id)[1:]:
        assert (trial.state, trial.segments) == ("pruned", 1)
        assert trial.reason.startswith("the study stops: ")
    log = lab.hpo("logs", name, "--trial", "0").stdout
    assert leader[-2].reason in log
    assert f"goes on from step {leader[-2].step} on 4 units" in log
    study = lab.study(name, run_id)
    assert study.best is not None
    assert study.best.trial == 0


def test_a_poor_trial_gives_way_to_a_changed_copy_of_the_best(lab: Lab, units: None) -> None:
    # Long enough that none is at its end before the last one has begun.
    study_file = heights(0.8, 0.5, 0.4, 0.1, pause=1.5)
    name = lab.add_study(
        "e2e_pbt",
        **{**study_file, "trials": 5},
        scheduler={"name": "pbt", "population": 4, "interval": 2, "max_steps": 10, "share": 0.25},
        parallelism=UNITS,
    )
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    study = lab.study(name, run_id)
    trials = lab.session.gateway.trials(study.id)
    assert [trial.state for trial in trials] == ["completed"] * 3 + ["pruned", "completed"]
    assert "a perturbed copy of a better trial replaces it" in trials[3].reason
    copy = next(item for item in segments_of(lab, study.id) if item.trial == 4)
    # It goes on with what its parent had learnt by then, and with another height.
    assert 0 < copy.from_step < 10
    assert trials[4].params["top"] in [pytest.approx(0.8 * factor) for factor in (0.8, 1.2)]
    log = lab.hpo("logs", name, "--trial", "4").stdout
    assert "trial 4 is a perturbed copy of trial 0" in log
    assert f"goes on from step {copy.from_step} on 1 units" in log
