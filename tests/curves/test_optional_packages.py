"""Which rooms work without the packages of the extras."""

from __future__ import annotations

import subprocess
import sys

import pytest

BLOCK = "import sys; sys.modules.update(dict.fromkeys({names!r})); "
ROOMS = "hpo_ops.cli, hpo_ops.config, hpo_ops.curves, hpo_ops.gateway, hpo_ops.simulator"


def run(code: str, *, without: tuple[str, ...]) -> str:
    """The output of code in a process in which packages cannot be imported."""
    command = [sys.executable, "-c", BLOCK.format(names=without) + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_room_can_be_imported_without_the_extras() -> None:
    run(f"import {ROOMS}", without=("emcee", "matplotlib"))


@pytest.mark.parametrize("predictor", ["projected", "wandering"])
def test_the_usual_predictors_need_no_extra(predictor: str) -> None:
    code = (
        "from hpo_ops.curves import create_predictor; "
        "from tests.curves.made_curves import rising; "
        f"made = create_predictor({predictor!r}, {{}}).predict(rising(), last_step=60); "
        "print(made.steps[-1])"
    )
    assert run(code, without=("emcee", "matplotlib", "scipy")) == "60\n"


def test_the_flow_of_a_study_is_known_without_numpy() -> None:
    code = "from hpo_ops.schedulers import why_rolling; print(why_rolling('pop'))"
    assert run(code, without=("numpy", "scipy", "optuna", "airflow", "sqlalchemy")) == "pauses\n"
