"""The search side under a real Airflow: an algorithm that is killed, warm starts, imports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest

from hpo_ops.client import TrialSummary
from tests.e2e.airflow import Lab, wait_for

pytestmark = pytest.mark.e2e

SPACE = {"x": {"float": [-1, 1]}, "heard": {"int": [0, 100]}}
WHOLE = {"name": "default", "max_steps": 2}
ALGORITHM = """
class Counting:
    def __init__(self):
        self.asked = self.heard = 0

    def sample_hyperparameter_candidates(self, n):
        first, self.asked = self.asked, self.asked + n
        return [{"x": number / 100, "heard": self.heard} for number in range(first, first + n)]

    def update_state(self, candidates, scores):
        self.heard += len(candidates)
"""
TRAINING = """
import time
from hpo_ops.sdk import trial

for step in trial.steps():
    time.sleep(0.5)
    trial.report(step, 1 - abs(trial.params["x"]))
"""


def algorithms() -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(word.endswith("user_algorithm_child.py") for word in process.info["cmdline"] or ()):
            found.append(process)
    return found


def trials_of(lab: Lab, name: str, run_id: str) -> list[TrialSummary]:
    assert lab.wait(name, run_id) == "success"
    return list(lab.session.gateway.trials(lab.study(name, run_id).id))


@pytest.fixture
def study(tmp_path: Path) -> dict[str, Any]:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(TRAINING)
    (code / "counting.py").write_text(ALGORITHM)
    return {"code": str(code), "space": SPACE, "scheduler": WHOLE, "cache": False}


def test_an_algorithm_that_is_killed_in_the_middle_loses_and_doubles_nothing(
    lab: Lab, study: dict[str, Any]
) -> None:
    sampler = {"name": "counting:Counting", "batch": 3}
    name = lab.add_study("e2e_own", **study, sampler=sampler, trials=7, flow="rolling")
    run_id = lab.trigger(name)
    [algorithm] = wait_for(algorithms, what="the algorithm's process")
    wait_for(lambda: lab.study(name, run_id).counts.get("completed"), what="the first trial's end")
    algorithm.kill()
    trials = trials_of(lab, name, run_id)
    assert [trial.params["x"] for trial in trials] == [number / 100 for number in range(7)]
    assert [trial.state for trial in trials] == ["completed"] * 7
    # Three are drawn at once: what was heard is the same in each three, and more in the next.
    heard = [trial.params["heard"] for trial in trials]
    assert heard[0] == 0
    assert heard[:3] == [heard[0]] * 3
    assert heard[3:6] == [heard[3]] * 3
    assert 0 < heard[3] <= 3 < heard[6] <= 6

    # Another study knows them, tries what it was told to first, and goes on with a policy.
    again = lab.add_study(
        "e2e_warm",
        **study,
        sampler="reinforce",
        trials=3,
        flow="rounds",
        warm_start={"study": name},
        enqueue=[{"x": 0.5, "heard": 9}],
    )
    run_id = lab.trigger(again)
    own = trials_of(lab, again, run_id)
    assert own[0].params == {"x": 0.5, "heard": 9}
    key = lab.study(again, run_id).key
    seen = optuna.load_study(study_name=key, storage=lab.stack.ledger_url).trials
    assert [trial.params for trial in seen] == [trial.params for trial in [*trials, *own]]


def test_an_optuna_study_is_imported_and_started_from(
    lab: Lab, study: dict[str, Any], tmp_path: Path
) -> None:
    old = f"sqlite:///{tmp_path}/old.db"
    theirs = optuna.create_study(study_name="old", storage=old, direction="maximize")
    for x in (0.1, 0.2, 7.0):
        distributions = {
            "x": optuna.distributions.FloatDistribution(-10, 10),
            "heard": optuna.distributions.IntDistribution(0, 100),
        }
        theirs.add_trial(
            optuna.trial.create_trial(
                params={"x": x, "heard": 1}, distributions=distributions, value=1 - x
            )
        )
    name = lab.add_study("e2e_import", **study, trials=2)
    done = lab.hpo("import", old, str(lab.stack.dags / "studies" / f"{name}.yaml"))
    assert done.returncode == 0, done.stderr
    assert "left out 1 (2): x is 7" in done.stdout
    found = re.search(r"import__\w+", done.stdout)
    assert found, done.stdout
    warm = {"study": name, "run": found.group()}
    again = lab.add_study("e2e_imported", **study, trials=2, warm_start=warm)
    run_id = lab.trigger(again)
    own = trials_of(lab, again, run_id)
    key = lab.study(again, run_id).key
    seen = optuna.load_study(study_name=key, storage=lab.stack.ledger_url).trials
    assert [trial.params["x"] for trial in seen] == [
        0.1,
        0.2,
        *(trial.params["x"] for trial in own),
    ]
