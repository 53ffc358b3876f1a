"""The score cache under a real Airflow: what was trained before is not trained again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpo_ops.client import TrialSummary
from tests.e2e.airflow import Lab

pytestmark = pytest.mark.e2e

FOUR_POINTS = {"x": {"choices": [-0.5, 0.1, 0.2, 0.9]}, "pause": {"choices": [0.02]}}
TRAINING = """
import json, os, time
from pathlib import Path
from hpo_ops.sdk import trial

with (Path(os.environ["CALLS"]) / "calls.txt").open("a") as calls:
    calls.write(json.dumps([trial.params["x"], trial.restored and trial.restored.name]) + "\\n")
state = {}
trial.checkpointed(
    save=lambda folder: (folder / "state.json").write_text(json.dumps(state)),
    load=lambda folder: state.update(json.loads((folder / "state.json").read_text())),
)
for step in trial.steps():
    time.sleep(0.3)
    state["steps"] = state.get("steps", 0) + 1
    trial.report(step, 1 - abs(trial.params["x"]) / (1 + state["steps"]))
"""


def run(lab: Lab, name: str, **changes: Any) -> list[TrialSummary]:
    lab.add_study(name, **changes)
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    return list(lab.session.gateway.trials(lab.study(name, run_id).id))


@pytest.mark.parametrize("flow", ["rolling", "rounds"])
def test_ten_trials_in_a_space_of_four_points_train_at_most_four_times(
    lab: Lab, tmp_path: Path, flow: str
) -> None:
    code, calls = tmp_path / "code", tmp_path / "calls"
    code.mkdir()
    calls.mkdir()
    (code / "train.py").write_text(TRAINING)
    common = {
        "code": str(code),
        "env": {"CALLS": str(calls)},
        "space": FOUR_POINTS,
        "metric": {"name": "score", "direction": "maximize"},
        "flow": flow,
        "parallelism": 3,
        "data": {"version": "1"},
    }
    two = {"name": "default", "max_steps": 2}
    name = f"e2e_cache_{flow}"
    trials = run(lab, name, trials=10, scheduler=two, **common)
    trained = (calls / "calls.txt").read_text().splitlines()
    assert len(trained) == len(set(trained)) <= 4
    assert [trial.state for trial in trials] == ["completed"] * 10
    for trial in trials:
        assert trial.value == pytest.approx(1 - abs(float(trial.params["x"] or 0)) / 3)
    served = [trial for trial in trials if trial.served]
    assert len(served) == 10 - len(trained)
    for trial in served:
        assert trial.served is not None
        assert trial.params == trials[trial.served.trial].params
        assert trial.reason.startswith("2 steps from the cache: trial ")
    shown = {
        int(item["rendered_map_index"].partition(":")[0]): item["rendered_map_index"]
        for item in lab.instances(name, lab.session.study(name).run_id)
        if item["task_id"].endswith("trial")
    }
    marked = {number for number, label in shown.items() if label.endswith("(cache)")}
    assert marked == {trial.trial for trial in served}

    # Another study of the same code and data, only longer, goes on from the best checkpoints.
    best = max(trials, key=lambda trial: trial.value or 0)
    longer = run(
        lab,
        f"{name}_longer",
        trials=1,
        enqueue=[dict(best.params)],
        scheduler={"name": "default", "max_steps": 3},
        **{**common, "parallelism": 1},
    )
    assert longer[0].served is not None
    assert (longer[0].served.step, longer[0].step) == (2, 3)
    assert (calls / "calls.txt").read_text().splitlines()[len(trained) :] == [
        f'[{best.params["x"]}, "2"]'
    ]
