"""From a study and an assignment to the container of a segment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpo_ops.client import NextAction, NextActionKind, StudyHandle
from hpo_ops.config import parse_study
from hpo_ops.protocol import Assignment
from hpo_ops.runners.docker import operator as module
from hpo_ops.runners.docker._container_spec import SegmentContainer
from hpo_ops.runners.docker.operator import TrialContainerOperator
from tests.studies import study_data


class Planned:
    """Takes the place of the runner, and keeps what it is given."""

    def __init__(self, _: object, plan: SegmentContainer, **settings: Any) -> None:
        self.plan = plan
        self.settings = settings


def planned(monkeypatch: pytest.MonkeyPatch, *, ooms: int = 0, **changes: Any) -> Planned:
    """The container of the next segment of a trial with two units."""
    monkeypatch.setattr(module, "ContainerRunner", Planned)
    config = parse_study(study_data(runner="docker", **changes), source="test").to_json()
    assignment = Assignment(
        study="small", trial=3, segment="s-1", params={}, metrics=["a"], resources={"units": 2.0}
    )
    token = "t"  # noqa: S105
    turn = NextAction(
        kind=NextActionKind.RUN, reason="", assignment=assignment, token=token, ooms=ooms
    )
    study = StudyHandle(id=1, name="small", run_id="r", key="small/r", config=config)
    made: Any = TrialContainerOperator(task_id="trial").segment_runner(study, turn, Path("/code"))
    assert isinstance(made, Planned)
    return made


def test_the_container_has_what_the_study_says_for_the_trials_units(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(
        monkeypatch, image="team/model:1", env={"A": "1"}, resources={"cpu": 1, "memory": "1Gi"}
    ).plan
    assert (plan.image, plan.command, plan.code) == (
        "team/model:1",
        "python train.py",
        Path("/code"),
    )
    assert (plan.study, plan.environment) == ("small/r", {"A": "1"})
    assert (plan.resources.cpu, plan.resources.memory) == ("2000m", str(2 << 30))


def test_a_study_without_an_image_gets_the_platforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPO_TRAINING_IMAGE", "platform:1")
    assert planned(monkeypatch).plan.image == "platform:1"


def test_a_trial_that_ran_out_of_memory_gets_more(monkeypatch: pytest.MonkeyPatch) -> None:
    resources = {"memory": "1Gi", "memory_on_oom": ["2Gi", "4Gi"]}
    made = planned(monkeypatch, ooms=1, resources=resources)
    assert made.plan.resources.memory == str(4 << 30)
    assert made.settings["next_memory"] == "4Gi"
