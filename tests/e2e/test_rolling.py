"""Rolling studies, the trigger form and the commands that act on a running study."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from hpo_ops.client import Progress
from tests.e2e.airflow import Lab, wait_for

pytestmark = pytest.mark.e2e

SLOW = {"x": {"float": [-1, 1]}, "pause": {"choices": [3.0]}}
"""Trials that last long enough for a person to act on them."""
WHOLE = {"name": "default", "max_steps": 9}


def started(lab: Lab, name: str, run_id: str) -> Progress:
    def look() -> Progress | None:
        try:
            study = lab.session.gateway.find(name, run_id)
        except LookupError:
            return None
        return study if study.counts["running"] else None

    found: Progress = wait_for(look, what=f"a running trial of {name}")
    return found


def states(lab: Lab, name: str, run_id: str) -> list[str]:
    return sorted(
        item["state"] for item in lab.instances(name, run_id) if item["task_id"] == "trial"
    )


def test_a_rolling_study_promotes_and_ends_with_its_best(lab: Lab) -> None:
    name = lab.add_study(
        "e2e_rolling",
        flow="rolling",
        trials=8,
        parallelism=2,
        scheduler={"name": "asha_promoting", "min_steps": 1, "max_steps": 9, "eta": 3},
        space={"x": {"float": [-1, 1]}, "pause": {"choices": [0.5]}},
    )
    done = lab.hpo("run", name, "--json")
    assert done.returncode == 0, done.stderr
    study = json.loads(done.stdout)
    assert study["counts"]["completed"] >= 1
    assert study["counts"]["failed"] == 0
    trials = lab.session.gateway.trials(study["id"])
    assert [trial.trial for trial in trials] == list(range(8))
    paused = [trial for trial in trials if trial.state == "pruned"]
    assert paused
    assert all(trial.step < 9 for trial in paused)
    # Pruned trials are skipped in the grid; whole ones are green.
    assert states(lab, name, study["run_id"]).count("success") == study["counts"]["completed"]
    best = lab.hpo("best", name, "--json")
    assert json.loads(best.stdout)["checkpoint_uri"].endswith("/best")
    logs = lab.hpo("logs", name)
    assert f"[trial {study['best']['trial']}]" in logs.stdout
    assert "\x1b[" not in logs.stdout


def test_a_rolling_study_goes_past_what_airflow_maps_one_task_over(lab: Lab) -> None:
    name = lab.add_study(
        "e2e_many",
        flow="rolling",
        trials=44,
        max_trials=90,
        parallelism=4,
        scheduler={"name": "default", "max_steps": 2},  # prunes none: every trial has a score
    )
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    study = lab.study(name, run_id)
    assert sum(study.counts.values()) == 44
    assert study.counts["failed"] == study.counts["running"] == 0
    by_task: dict[str, list[int]] = {}
    for item in lab.instances(name, run_id):
        if item["map_index"] >= 0 and item["state"] in ("success", "skipped"):
            by_task.setdefault(item["task_id"], []).append(item["map_index"])
    assert len(by_task["trial"]) == 40  # as many as one task may have
    scores = [
        lab.xcom(item)
        for item in lab.instances(name, run_id)
        if item["task_id"] == "trials_from_40.trial" and item["state"] == "success"
    ]
    assert {score["trial"] for score in scores} == {40, 41, 42, 43}
    states = {item["task_id"]: item["state"] for item in lab.instances(name, run_id)}
    assert states["trials_from_80.wait"] == states["trials_from_80.trial"] == "skipped"


def test_pause_set_resume_and_stop_act_on_a_running_study(lab: Lab) -> None:
    name = lab.add_study(
        "e2e_held",
        flow="rolling",
        trials=30,
        parallelism=1,
        max_parallelism=2,
        scheduler=WHOLE,
        space=SLOW,
    )
    run_id = lab.trigger(name)
    started(lab, name, run_id)
    assert lab.hpo("pause", name, "--reason", "lunch").returncode == 0
    wait_for(lambda: not lab.study(name, run_id).counts["running"], what="nothing running")
    assert lab.study(name, run_id).state == "paused"
    changed = lab.hpo("set", name, "parallelism=2", "trials=4", "--json")
    assert json.loads(changed.stdout)["parallelism"] == 2
    refused = lab.hpo("set", name, "parallelism=9")
    assert refused.returncode == 1
    assert "parallelism is 9, but must be 2 or less" in refused.stderr
    assert lab.hpo("resume", name).returncode == 0
    wait_for(lambda: lab.study(name, run_id).counts["running"] == 2, what="two at once")
    assert lab.hpo("stop", name, "--reason", "enough").returncode == 0
    assert lab.wait(name, run_id) == "success"
    study = lab.study(name, run_id)
    assert (study.state, study.reason) == ("ended", "enough")
    first = lab.session.gateway.trials(study.id)[0]
    assert first.segments >= 2
    again = lab.hpo("stop", name)
    assert again.returncode == 1
    assert "cannot be stopped: it is ended (enough)" in again.stderr


def test_conf_changes_a_run_and_a_wrong_one_starts_nothing(lab: Lab) -> None:
    name = lab.add_study("e2e_conf", flow="rolling", trials=30, parallelism=2)
    run_id = lab.airflow.trigger(name, {"trials": 3, "metric.target": 0.999999})
    assert lab.wait(name, run_id) == "success"
    assert lab.study(name, run_id).trials == 3
    assert len(states(lab, name, run_id)) == 3

    with pytest.raises(Exception, match="trials"):  # refused at the door by the form's schema
        lab.airflow.trigger(name, {"trials": 0})
    run_id = lab.airflow.trigger(name, {"trails": 3})
    assert lab.wait(name, run_id) == "failed"
    by_task = {item["task_id"]: item["state"] for item in lab.instances(name, run_id)}
    assert by_task["prepare"] == "failed"
    assert by_task["finalize"] == "success"  # it always runs
    with pytest.raises(LookupError):
        lab.session.gateway.find(name, run_id)


def test_the_generic_dag_runs_a_whole_study(lab: Lab) -> None:
    study: dict[str, Any] = {
        "name": "e2e_whole",
        "code": str(lab.code),
        "command": "python train.py",
        "metrics": [
            {"name": "accuracy", "direction": "maximize"},
            {"name": "size", "direction": "minimize"},
        ],
        "space": {"x": {"float": [0, 1], "step": 0.5}, "pause": [0.01]},
        "sampler": "grid",
        "scheduler": WHOLE,
        "trials": 3,
        "parallelism": 2,
        "finalizers": [],
    }
    run_id = lab.airflow.trigger("hpo_study", {"study": study})
    assert lab.wait("hpo_study", run_id) == "success"
    found = lab.study("e2e_whole", run_id)
    trials = lab.session.gateway.trials(found.id)
    assert sorted(trial.params["x"] for trial in trials) == [0.0, 0.5, 1.0]
    front = lab.session.gateway.front(found.id)
    assert {trial.params["x"] for trial in front} == {0.0, 0.5, 1.0}


@pytest.fixture
def inbox() -> Iterator[tuple[str, list[bytes]]]:
    """The address of a server that takes notes, and the notes."""
    notes: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            notes.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", notes
    server.shutdown()
    server.server_close()


def test_a_users_criterion_and_finalizer_are_called(
    lab: Lab, tmp_path: Any, inbox: tuple[str, list[bytes]]
) -> None:
    address, notes = inbox
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text((lab.code / "train.py").read_text())
    (code / "mine.py").write_text(
        "import json, urllib.request\n"
        "def enough(trials):\n"
        "    done = [trial for trial in trials if trial['state'] == 'completed']\n"
        "    return f'{len(done)} are enough' if len(done) >= 2 else None\n"
        "def note(result):\n"
        f"    urllib.request.urlopen({address!r}, json.dumps(result['best']).encode())\n"
    )
    name = lab.add_study(
        "e2e_criterion",
        code=str(code),
        flow="rolling",
        trials=40,
        parallelism=1,
        scheduler=WHOLE,
        stop={"when": "mine:enough"},
        finalizers=["mine:note"],
    )
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    study = lab.study(name, run_id)
    assert study.reason.endswith("are enough")
    assert study.counts["completed"] < 40
    assert study.best is not None
    assert [json.loads(note)["trial"] for note in notes] == [study.best.trial]
    # Instances that were never needed are skipped without being started.
    assert states(lab, name, run_id).count("skipped") >= 30
