"""Repeats of a study and a comparison of samplers, under a real Airflow."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean, stdev

import pytest
import yaml
from typer.testing import CliRunner

from hpo_ops.cli.commands import app
from hpo_ops.core.experiment_statistics import repeat_seed
from tests.e2e.airflow import TRAINING, Lab

pytestmark = pytest.mark.e2e


@pytest.fixture
def at_the_stack(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPO_URL", lab.stack.url)
    monkeypatch.setenv("HPO_TOKEN", lab.airflow.token)


@pytest.mark.usefixtures("at_the_stack")
def test_a_study_with_repeats_is_run_with_several_seeds_and_gives_a_mean(
    lab: Lab, tmp_path: Path
) -> None:
    name = lab.add_study("e2e_repeats", trials=2, parallelism=2)
    # A value of the trigger form: the DAG's own runs start the others.
    done = CliRunner().invoke(app, ["run", name, "--conf", "repeats=3", "--json"])
    assert done.exit_code == 0, done.output
    run_id = json.loads(done.stdout)["run_id"]
    runs = [run_id, f"{run_id}__repeat_1", f"{run_id}__repeat_2"]
    assert [lab.airflow.run_state(name, run) for run in runs] == ["success"] * 3

    picture = tmp_path / "best.png"
    shown = CliRunner().invoke(
        app, ["experiment", name, "--run", run_id, "--json", "--plot", str(picture)]
    )
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found == json.loads(done.stdout)["experiment"]
    assert [repeat["run_id"] for repeat in found["repeats"]] == runs
    assert [repeat["seed"] for repeat in found["repeats"]] == [repeat_seed(7, k) for k in range(3)]
    params = [
        [trial.params["x"] for trial in lab.session.gateway.trials(repeat["study_id"])]
        for repeat in found["repeats"]
    ]
    assert len({tuple(row) for row in params}) == 3  # each seed is another study
    bests = [repeat["best"] for repeat in found["repeats"]]
    assert found["outcome"]["mean"] == pytest.approx(fmean(bests))
    assert found["outcome"]["deviation"] == pytest.approx(stdev(bests))
    assert found["best_so_far"]["2"]["mean"] == pytest.approx(fmean(bests))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("at_the_stack")
def test_samplers_are_compared_live_on_one_study(tmp_path: Path) -> None:
    study = {
        "name": "e2e_compared",
        "code": str(TRAINING),
        "command": "python train.py",
        "metric": {"name": "accuracy", "direction": "maximize"},
        "space": {"x": {"float": [-1, 1]}, "pause": {"choices": [0.02]}},
        "scheduler": {"name": "asha", "min_steps": 1, "max_steps": 3, "eta": 3},
        "trials": 2,
        "parallelism": 2,
        "seed": 7,
    }
    file = tmp_path / "compared.yaml"
    file.write_text(yaml.safe_dump(study))
    words = ["compare", str(file), "--sampler", "random,qmc", "--repeats", "2", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    names = {item["name"] for item in found["standings"]}
    assert names == {"e2e_compared.random", "e2e_compared.qmc"}
    assert [item["estimate"]["repeats"] for item in found["standings"]] == [2, 2]
    assert found["standings"][1]["pairs"] == 2
    # What has run is compared again by name, without running anything.
    again = CliRunner().invoke(app, ["compare", *sorted(names), "--json"])
    assert json.loads(again.stdout)["standings"] == found["standings"]
