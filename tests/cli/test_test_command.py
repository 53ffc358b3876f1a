from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.commands import app
from hpo_ops.cli.test_command import draw_params
from hpo_ops.config import load_study

STUDY = Path(__file__).parents[2] / "dags" / "studies" / "digits.yaml"


def test_the_example_study_passes(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["test", str(STUDY), "--param", "width=16", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [item["name"] for item in found if not item["is_ok"]] == []
    assert "resumes from its checkpoint" in [item["name"] for item in found]


def test_parameters_are_drawn_with_the_studys_seed_and_completed_by_condition() -> None:
    study = load_study(STUDY)
    assert draw_params(study, {}, source="s") == draw_params(study, {}, source="s")
    assert "momentum" not in draw_params(study, {"optimizer": "adam"}, source="s")
    assert draw_params(study, {"lr": 0.01}, source="s")["lr"] == 0.01


@pytest.mark.parametrize(
    ("given", "text"), [({"depth": 3}, "depth is no parameter"), ({"lr": 7.0}, "lr is 7")]
)
def test_a_parameter_outside_of_the_space_is_refused(given: dict[str, object], text: str) -> None:
    with pytest.raises(CommandError, match=text):
        draw_params(load_study(STUDY), given, source="digits.yaml")


def test_a_study_without_a_code_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(
        "name: pods\ncommand: train\nrunner: kubernetes\nimage: team/model:1\n"
        "metric: {name: loss, direction: minimize}\nspace: {x: {float: [0, 1]}}\n"
    )
    done = CliRunner().invoke(app, ["test", str(file)])
    assert isinstance(done.exception, CommandError)
    assert "code is missing" in str(done.exception)
