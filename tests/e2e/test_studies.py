"""Studies from the trigger to the checkpoint in S3, with nothing mocked in between."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest

from hpo_ops.client import Progress, SegmentSummary
from tests.e2e.airflow import Lab, wait_for

pytestmark = pytest.mark.e2e


def trials_of(lab: Lab, study: Progress) -> list[dict[str, Any]]:
    return [trial.to_dict() for trial in lab.session.gateway.trials(study.id)]


def trainings(lab: Lab) -> list[psutil.Process]:
    """The training processes of this stack that run now: nothing else works in their folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()) == lab.code:
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess):
            continue
    return found


def most_at_once(segments: list[SegmentSummary]) -> int:
    """The largest number of segments that were open at the same moment."""
    moments = [(item.start, 1) for item in segments]
    moments += [(item.end or 0.0, -1) for item in segments]
    running = most = 0
    for _, change in sorted(moments):
        running += change
        most = max(most, running)
    return most


def test_a_study_triggered_by_command_ends_with_its_best_checkpoint_in_s3(lab: Lab) -> None:
    name = lab.add_study("e2e_command", trials=6, parallelism=2)
    run_id = lab.trigger_by_command(name)
    assert lab.wait(name, run_id) == "success"

    study = lab.study(name, run_id)
    trials = trials_of(lab, study)
    assert study.state == "ended"
    assert study.reason == "all 6 trials have been started and none is waiting"
    assert [trial["trial"] for trial in trials] == list(range(6))

    # The score of each trial follows from its parameters and its best step.
    for trial in trials:
        expected = 1 - abs(trial["params"]["x"]) / (1 + trial["best_step"])
        assert trial["value"] == pytest.approx(expected)

    # The grid shows what became of each trial, and XCom has its score.
    instances = lab.instances(name, run_id)
    shown = {"completed": "success", "pruned": "skipped"}
    by_trial = {
        int(item["rendered_map_index"].split(":")[0]): item
        for item in instances
        if item["task_id"].endswith(".trial")
    }
    for trial in trials:
        instance = by_trial[trial["trial"]]
        assert instance["state"] == shown[trial["state"]]
        assert lab.xcom(instance)["value"] == pytest.approx(trial["value"])
    others = [item for item in instances if not item["task_id"].endswith(".trial")]
    assert {item["state"] for item in others} == {"success"}

    # The best checkpoint is published, and what is kept is what the study asked for.
    best = study.best
    assert best is not None
    assert best.value == max(trial["value"] for trial in trials)
    checkpoints = lab.checkpoints(study.key)
    manifest = checkpoints.best()
    assert manifest is not None
    assert manifest.step == best.checkpoint_step
    assert best.checkpoint_uri == f"s3://hpo/{study.key}/best"
    assert len({ref.trial for ref in checkpoints.complete()}) == 3
    saved = lab.stack.object_store.store().get(f"{study.key}/best/state.json").bytes()
    assert json.loads(bytes(saved))["steps"] == list(range(1, manifest.step + 1))
    result = lab.stack.object_store.store().get(f"{study.key}/result.json").bytes()
    assert json.loads(bytes(result))["best"]["trial"] == best.trial

    # Optuna sees the study.
    seen = optuna.load_study(study_name=study.key, storage=lab.stack.ledger_url)
    assert [trial.params for trial in seen.trials] == [trial["params"] for trial in trials]
    states = {"completed": "COMPLETE", "pruned": "PRUNED"}
    assert [trial.state.name for trial in seen.trials] == [
        states[trial["state"]] for trial in trials
    ]
    assert trainings(lab) == []


def test_the_same_seed_gives_the_same_study_twice(lab: Lab) -> None:
    name = lab.add_study(
        "e2e_reproducible", trials=6, parallelism=3, sampler="tpe", reproducible=True
    )
    runs = [lab.trigger(name), lab.trigger(name)]  # at the same time, so that they get in each
    stories = []  # other's way and finish in different orders
    for run_id in runs:
        assert lab.wait(name, run_id) == "success"
        stories.append(
            [
                (trial["params"], trial["value"], trial["state"], trial["reason"])
                for trial in trials_of(lab, lab.study(name, run_id))
            ]
        )
    assert len(stories[0]) == 6
    assert stories[0] == stories[1]


def test_a_training_killed_in_the_middle_goes_on_from_its_last_checkpoint(lab: Lab) -> None:
    name = lab.add_study(
        "e2e_killed",
        trials=2,
        parallelism=1,
        scheduler={"name": "default", "max_steps": 9},
        space={"x": {"float": [-1, 1]}, "pause": {"choices": [0.5]}},
    )
    run_id = lab.trigger(name)

    def after_step_three() -> Progress | None:
        try:
            study = lab.session.gateway.find(name, run_id)
        except LookupError:
            return None
        steps = [trial["step"] for trial in trials_of(lab, study)]
        return study if steps and steps[0] >= 3 else None

    study = wait_for(after_step_three, what="step 3 of the first trial")
    (training,) = trainings(lab)
    os.kill(training.pid, signal.SIGKILL)
    assert lab.wait(name, run_id) == "success"

    trials = trials_of(lab, lab.study(name, run_id))
    assert [trial["state"] for trial in trials] == ["completed", "completed"]
    assert [trial["segments"] for trial in trials] == [2, 1]
    events = lab.session.gateway.events(study.id)
    starts = [
        event["data"]["from_step"]
        for event in events
        if event["kind"] == "segment started" and event["trial"] == 0
    ]
    assert starts[0] == 0
    assert starts[1] >= 2
    # Each step was trained once on the way to the last checkpoint, whoever trained it.
    saved = lab.stack.object_store.store().get(f"{study.key}/trials/0/9/state.json").bytes()
    assert json.loads(bytes(saved))["steps"] == list(range(1, 10))


def test_a_stopped_study_ends_tidily_and_skips_the_rounds_that_are_left(lab: Lab) -> None:
    name = lab.add_study(
        "e2e_stopped",
        trials=20,
        parallelism=2,
        scheduler={"name": "default", "max_steps": 9},
        space={"x": {"float": [-1, 1]}, "pause": {"choices": [0.3]}},
    )
    run_id = lab.trigger(name)
    wait_for(lambda: trainings(lab), what="a training")
    # Before there would be nothing to publish.
    wait_for(lambda: lab.study(name, run_id).best is not None, what="a report")
    study = lab.study(name, run_id)
    lab.session.gateway.stop(study.id, "seen enough")
    assert lab.wait(name, run_id) == "success"

    study = lab.study(name, run_id)
    assert (study.state, study.reason) == ("ended", "seen enough")
    instances = {
        (item["task_id"], item["map_index"]): item["state"] for item in lab.instances(name, run_id)
    }
    assert instances["publish", -1] == "success"
    assert instances["finalize", -1] == "success"
    assert instances["round_09.sample", -1] == "skipped"
    assert instances["round_09.collect", -1] == "skipped"
    assert trainings(lab) == []


def test_a_study_whose_trainings_all_fail_fails_and_says_why(lab: Lab) -> None:
    name = lab.add_study("e2e_failing", command="python missing.py", trials=2, parallelism=2)
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "failed"  # all of them failed, so there is no result
    trials = trials_of(lab, lab.study(name, run_id))
    assert [trial["state"] for trial in trials] == ["failed", "failed"]
    assert "missing.py" in trials[0]["reason"]
    states = {item["task_id"]: item["state"] for item in lab.instances(name, run_id)}
    assert states["round_00.trial"] == "failed"
    assert states["publish"] == "failed"
    assert states["finalize"] == "success"


def test_a_round_larger_than_the_parallelism_runs_its_trials_so_many_at_a_time(lab: Lab) -> None:
    name = lab.add_study("e2e_large_rounds", trials=10, round_size=5, parallelism=2)
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    study = lab.study(name, run_id)
    assert sum(study.counts.values()) == 10
    assert study.counts["failed"] == 0
    rounds = [
        item["task_id"]
        for item in lab.instances(name, run_id)
        if item["task_id"].endswith(".trial") and item["map_index"] >= 0
    ]
    assert sorted(rounds) == ["round_00.trial"] * 5 + ["round_01.trial"] * 5
    assert most_at_once(lab.session.gateway.segments(study.id)) == 2
