"""Studies with folds under a real Airflow: in both flows, pruned, retrained and published."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.airflow import Lab

pytestmark = pytest.mark.e2e


def tasks(lab: Lab, name: str, run_id: str, task: str) -> list[dict[str, Any]]:
    found = lab.instances(name, run_id)
    return [item for item in found if item["task_id"].rpartition(".")[2] == task]


@pytest.mark.parametrize("flow", ["rolling", "rounds"])
def test_folds_run_in_parallel_and_the_best_is_trained_on_all_data(lab: Lab, flow: str) -> None:
    name = lab.add_study(
        f"e2e_folds_{flow}",
        command="python folded.py",
        scheduler={"name": "default", "max_steps": 4},
        folds={"count": 3, "retrain": True},
        flow=flow,
        trials=3,
        parallelism=3,
    )
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    progress = lab.study(name, run_id)
    assert (progress.trials, progress.counts["completed"], progress.begun) == (3, 3, 10)

    trials = lab.session.gateway.trials(progress.id)
    assert [trial.best_step for trial in trials] == [3, 3, 3]
    for trial in trials:
        expected = [1 - abs(float(trial.params["x"] or 0)) + fold / 100 for fold in range(3)]
        assert [fold.value for fold in trial.folds] == pytest.approx(expected)
        assert trial.value == pytest.approx(expected[1])
        assert trial.deviation == pytest.approx(0.01)
    labels = [item["rendered_map_index"] for item in tasks(lab, name, run_id, "trial")]
    assert sorted(label.partition(":")[0] for label in labels) == [
        f"{trial} fold {fold}/3" for trial in range(3) for fold in (1, 2, 3)
    ]

    (retrain,) = tasks(lab, name, run_id, "retrain")
    assert retrain["state"] == "success"
    shown = lab.hpo("best", name, "--run", run_id, "--json")
    assert shown.returncode == 0, shown.stderr
    best = json.loads(shown.stdout)
    assert best["trial"] == max(trials, key=lambda trial: trial.value or 0).trial
    assert (best["step"], best["is_retrained"]) == (3, True)
    manifest = lab.checkpoints(progress.key).best()
    assert manifest is not None
    assert manifest.step == 3  # up to the best step, and no further
    words = lab.hpo("status", name, "--run", run_id).stdout
    assert "± 0.01" in words
    logs = lab.hpo("logs", name, "--run", run_id).stdout
    assert "fold 2 of 3 trains on 8" in logs


def test_a_trial_that_is_worse_than_the_best_loses_its_last_folds(lab: Lab) -> None:
    name = lab.add_study(
        "e2e_folds_pruned",
        command="python folded.py",
        space={"x": {"choices": [0.0, 0.5]}, "pause": {"choices": [0.02]}},
        sampler="random",
        scheduler={"name": "default", "max_steps": 4},
        folds={"count": 5, "prune": 0.2},
        enqueue=[{"x": 0.0}, {"x": 0.5}],
        flow="rolling",
        trials=2,
        parallelism=1,
    )
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    progress = lab.study(name, run_id)
    first, second = lab.session.gateway.trials(progress.id)
    assert (first.state, second.state) == ("completed", "pruned")
    assert [fold.state for fold in second.folds] == ["completed"] * 3 + ["pruned"] * 2
    assert "worse than trial 0 in 3 of 5 folds" in second.reason
    states = [item["state"] for item in tasks(lab, name, run_id, "trial")]
    assert (states.count("success"), states.count("skipped")) == (8, 2)
    assert progress.best is not None
    assert progress.best.trial == 0
    # Of whichever fold: a checkpoint is uploaded when the one before it is.
    assert progress.best.checkpoint_fold in range(5)
