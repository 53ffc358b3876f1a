"""A trial trained once more under a real Airflow, and what is kept of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.airflow import Lab

pytestmark = pytest.mark.e2e

TRAINING = """
import random, time
import yaml
from hpo_ops.sdk import trial

for step in trial.steps():
    noise = {noise}
    trial.report(step, score=trial.params["x"] * step + noise, noise=noise)
"""


def test_a_trial_is_trained_once_more_and_compared(lab: Lab, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(TRAINING.format(noise="random.random()"))
    name = lab.add_study(
        "e2e_reproduce",
        code=str(code),
        metric={"name": "score", "direction": "maximize"},
        space={"x": {"float": [0, 1]}},
        trials=2,
        scheduler={"name": "default", "max_steps": 3},
        deterministic=True,
        data={"version": "1"},
    )
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    shown = json.loads(lab.hpo("show", name, "1", "--json").stdout)
    assert shown["data_version"] == "1"
    assert len(shown["provenance"]["code_hash"]) == 32
    assert {"yaml", "hpo_ops"} <= set(shown["provenance"]["packages"])
    study = lab.study(name, run_id)
    saved = lab.stack.object_store.store().get(f"{study.key}/result.json").bytes()
    best = json.loads(bytes(saved))["best"]
    assert best["provenance"]["code_hash"] == shown["provenance"]["code_hash"]

    same = lab.hpo("reproduce", name, "1")
    assert (same.returncode, same.stdout) == (0, same.stdout), same.stderr
    assert "Reproduced: the reports of 3 steps" in same.stdout

    (code / "train.py").write_text(TRAINING.format(noise="time.time() % 1"))
    refused = lab.hpo("reproduce", name, "1")
    assert refused.returncode == 1
    assert "Restore that code, or use --any-code" in refused.stderr
    other = lab.hpo("reproduce", name, "1", "--any-code", "--json")
    assert other.returncode == 1
    found = json.loads(other.stdout)
    assert [item["step"] for item in found["differences"] if item["metric"] == "noise"] == [
        1,
        2,
        3,
    ]
    assert any(line.startswith("code_hash was ") for line in found["changes"])
