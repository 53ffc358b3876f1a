"""Every process in the way is killed once while a study runs: nothing is lost, doubled or left."""

from __future__ import annotations

import json
from typing import Any

import psutil
import pytest
from sqlalchemy import create_engine, text

from hpo_ops.client import Progress
from hpo_ops.stack import Part
from tests.e2e.airflow import Lab, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

TRIALS = 10


def steps_of(lab: Lab, study: Progress) -> int:
    return sum(trial.step for trial in lab.session.gateway.trials(study.id))


def kill_worker_of(lab: Lab, instance: dict[str, Any]) -> None:
    """Kills the worker that looks after a task instance."""
    title = f"airflow worker -- {instance['id']}"
    for process in lab.stack.processes():
        try:
            if " ".join(process.cmdline()).strip() == title:
                process.kill()
                return
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    raise AssertionError(f"there is no process {title!r}")


def test_a_study_survives_a_kill_of_everything(lab: Lab) -> None:
    name = lab.add_study(
        "e2e_kills",
        flow="rolling",
        trials=TRIALS,
        parallelism=2,
        scheduler={"name": "default", "max_steps": 9},
        space={"x": {"float": [-1, 1]}, "pause": {"choices": [2.0]}},
    )
    run_id = lab.trigger(name)
    study: Progress = wait_for(lambda: _find(lab, name, run_id), what="the study")
    wait_for(lambda: steps_of(lab, study) >= 2, what="the first steps")

    for part in (
        Part.TRIGGERER,
        Part.DAG_PROCESSOR,
        Part.S3,
        Part.SCHEDULER,
        Part.API_SERVER,
        Part.POSTGRES,
    ):
        lab.stack.kill(part)
        lab.stack.start()
        before = steps_of(lab, study)
        wait_for(
            lambda before=before: steps_of(lab, study) > before or _is_over(lab, study),
            what=f"a step after {part} was killed",
        )
    assert lab.wait(name, run_id) == "success"

    study = lab.study(name, run_id)
    trials = lab.session.gateway.trials(study.id)
    assert [trial.trial for trial in trials] == list(range(TRIALS))
    assert {trial.state.value for trial in trials} == {"completed"}
    assert [trial.step for trial in trials] == [9] * TRIALS
    # The published checkpoint knows each step once.
    saved = lab.stack.object_store.store().get(f"{study.key}/best/state.json").bytes()
    steps = json.loads(bytes(saved))["steps"]
    assert steps == list(range(1, len(steps) + 1))
    engine = create_engine(lab.stack.ledger_url)
    with engine.connect() as connection:
        left = connection.execute(text("SELECT count(*) FROM ledger.leases")).scalar_one()
        doubled = connection.execute(
            text(
                "SELECT count(*) FROM (SELECT trial, step FROM ledger.reports "
                "WHERE study_id = :study GROUP BY trial, step HAVING count(*) > 1) AS twice"
            ),
            {"study": study.id},
        ).scalar_one()
    engine.dispose()
    assert (left, doubled) == (0, 0)


def test_a_killed_worker_costs_its_trial_no_more_than_a_checkpoint(lab: Lab) -> None:
    name = lab.add_study(
        "e2e_worker",
        flow="rolling",
        trials=2,
        parallelism=1,
        scheduler={"name": "default", "max_steps": 9},
        space={"x": {"float": [-1, 1]}, "pause": {"choices": [1.0]}},
    )
    run_id = lab.trigger(name)
    study: Progress = wait_for(lambda: _find(lab, name, run_id), what="the study")
    wait_for(lambda: steps_of(lab, study) >= 3, what="three steps")
    first = next(
        item
        for item in lab.instances(name, run_id)
        if item["task_id"] == "trial" and item["map_index"] == 0
    )
    kill_worker_of(lab, first)
    assert lab.wait(name, run_id) == "success"
    trials = lab.session.gateway.trials(study.id)
    assert {trial.state.value for trial in trials} == {"completed"}
    starts = [
        event["data"]["from_step"]
        for event in lab.session.gateway.events(study.id)
        if event["kind"] == "segment started" and event["trial"] == 0
    ]
    assert starts[0] == 0
    assert starts[-1] >= 2


def _find(lab: Lab, name: str, run_id: str) -> Progress | None:
    try:
        return lab.session.gateway.find(name, run_id)
    except LookupError:
        return None


def _is_over(lab: Lab, study: Progress) -> bool:
    return lab.session.gateway.progress(study.id).state == "ended"
