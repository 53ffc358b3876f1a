"""What goes wrong in trainings and in study files while a study runs: it is said, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hpo_ops.core import TrialState
from tests.e2e.airflow import Lab, wait_for
from tests.e2e.test_rolling import started

pytestmark = pytest.mark.e2e

REASONS = {
    "nothing reported": "the training ended without reporting accuracy",
    "not a number": "step 2: accuracy is nan, but must be a finite number",
    "a step back": "step 1 was reported after step 2, but steps must go up",
    "a line of 10 MB": "after step 0: ",
    "a link out of the checkpoint": "link",
    "deaf to signals": "step 1 was reported after step 1, but steps must go up",
}
HARMLESS = {"100,000 reports": 100_000, "an empty checkpoint": 1}


def test_each_bad_training_fails_its_own_trial_with_a_reason(lab: Lab) -> None:
    kinds = [*REASONS, *HARMLESS]
    name = lab.add_study(
        "hostile",
        command="python hostile.py",
        space={"kind": {"choices": kinds}},
        sampler="brute_force",
        scheduler="default",
        flow="rolling",
        trials=len(kinds),
        retries=0,
        grace=1,
        stop={"failures": 1.0},
    )
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    study = lab.study(name, run_id)
    trials = {trial.params["kind"]: trial for trial in lab.session.gateway.trials(study.id)}
    assert set(trials) == set(kinds)
    for kind, reason in REASONS.items():
        assert trials[kind].state is TrialState.FAILED, kind
        assert reason in trials[kind].reason, kind
    for kind, steps in HARMLESS.items():
        assert (trials[kind].state, trials[kind].step) == (TrialState.COMPLETED, steps), kind
    states = {
        instance["map_index"]: instance["state"]
        for instance in lab.instances(name, run_id)
        if instance["task_id"] == "trial"
    }
    for trial in trials.values():
        expected = "success" if trial.state is TrialState.COMPLETED else "failed"
        assert states[trial.trial] == expected, trial.params


def _file(lab: Lab, name: str) -> Path:
    return lab.stack.dags / "studies" / f"{name}.yaml"


def _slow(lab: Lab, name: str) -> tuple[str, str]:
    """A study that is running when this returns, and goes on for a while."""
    space: dict[str, Any] = {"x": {"float": [-1, 1]}, "pause": {"choices": [0.6]}}
    scheduler = {"name": "default", "max_steps": 9}
    lab.add_study(name, flow="rolling", trials=6, space=space, scheduler=scheduler)
    run_id = lab.trigger(name)
    started(lab, name, run_id)
    return name, run_id


def test_a_study_outlives_what_happens_to_its_file(lab: Lab) -> None:
    broken, broken_run = _slow(lab, "breaks")
    renamed, renamed_run = _slow(lab, "is_renamed")
    _file(lab, broken).write_text("name: breaks\nspace: [", encoding="utf-8")
    data = yaml.safe_load(_file(lab, renamed).read_text(encoding="utf-8"))
    _file(lab, renamed).unlink()
    _file(lab, "has_a_new_name").write_text(
        yaml.safe_dump({**data, "name": "has_a_new_name"}), encoding="utf-8"
    )
    lab.wait_for_study("has_a_new_name")
    for name, run_id in ((broken, broken_run), (renamed, renamed_run)):
        assert lab.wait(name, run_id) == "success"
        assert lab.study(name, run_id).counts["completed"] == 6
    wait_for(
        lambda: (
            "breaks.yaml" in (lab.airflow.request("GET", "/dags/breaks/details")["doc_md"] or "")
        ),
        what="the DAG of the broken file to say so",
    )


def test_the_example_downstream_runs_when_its_study_has_published(lab: Lab) -> None:
    name = "digits"  # the study that the example is scheduled on
    for dag_id in (name, "hpo_downstream_example"):
        lab.airflow.wait_for_dag(dag_id, seconds=400)
        lab.airflow.request("PATCH", f"/dags/{dag_id}", json={"is_paused": False})
    conf = {"trials": 2, "parallelism": 2}
    run_id = lab.airflow.trigger(name, conf)
    assert lab.wait(name, run_id) == "success"
    path = "/dags/hpo_downstream_example/dagRuns"

    def ended() -> dict[str, Any] | None:
        runs = lab.airflow.request("GET", path)["dag_runs"]
        return next((run for run in runs if run["state"] in ("success", "failed")), None)

    run = wait_for(ended, what="the run downstream")
    assert run["state"] == "success"
    (deploy,) = lab.instances("hpo_downstream_example", run["dag_run_id"])
    best = lab.session.gateway.best(lab.study(name, run_id).id)
    assert best is not None
    assert lab.xcom(deploy)["trial"] == best.trial


def test_a_study_cannot_make_the_platform_write_where_the_operator_does_not_allow(
    lab: Lab, tmp_path: Path
) -> None:
    store = tmp_path / "elsewhere"
    name = lab.add_study("misplaced", checkpoints={"store": f"file://{store}"}, trials=1)
    run_id = lab.trigger(name)

    assert lab.wait(name, run_id) == "failed"
    assert not store.exists()
    with pytest.raises(LookupError):
        lab.session.gateway.find(name, run_id)


def test_a_generic_run_with_a_victims_name_and_run_id_is_another_study(lab: Lab) -> None:
    given = {"scheduler": {"name": "default", "max_steps": 2}, "trials": 1, "flow": "rolling"}
    name = lab.add_study("victim", **given)
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    victim = lab.study(name, run_id)
    assert victim.owner == lab.stack.username
    kept = lab.session.gateway.kept_checkpoints(victim.id)
    assert kept
    path = lab.stack.dags / "studies" / f"{name}.yaml"
    study = {**yaml.safe_load(path.read_text(encoding="utf-8")), "cache": False, "seed": 8}
    lab.airflow.request(
        "POST",
        "/dags/hpo_study/dagRuns",
        json={"logical_date": None, "dag_run_id": run_id, "conf": {"study": study}},
    )
    assert lab.wait("hpo_study", run_id) == "success"
    found = lab.airflow.request("GET", "/assets/events", params={"source_run_id": run_id})
    # Nothing that waits for the victim's best is started by the attacker's.
    assert {(item["source_dag_id"], item["name"]) for item in found["asset_events"]} == {
        (name, f"hpo/{name}/best"),
        ("hpo_study", f"hpo/hpo_study/{name}/best"),
    }
    attacker = lab.session.gateway.find(name, run_id, dag_id="hpo_study")
    assert attacker.id != victim.id
    assert attacker.key != victim.key
    assert lab.session.gateway.find(name, run_id, dag_id=name) == victim
    assert lab.session.gateway.kept_checkpoints(victim.id) == kept
    saved = lab.checkpoints(victim.key).complete()
    assert {(ref.trial, ref.step) for ref in saved} >= kept
