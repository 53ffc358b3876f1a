"""Training a trial once more, and comparing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpo_ops.checkpoints import hash_code
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.reproduce_command import Difference, changes, check_code, compare, study_of_trial
from hpo_ops.client import SegmentDetail, TrialDetail, TrialSummary
from hpo_ops.config import StudyConfig, parse_study
from hpo_ops.core import TrialState
from hpo_ops.protocol import Provenance, Report
from tests.studies import study_data


def curve(*values: float, **more: float) -> list[Report]:
    return [
        Report(step=step, metrics={"accuracy": value, **more})
        for step, value in enumerate(values, start=1)
    ]


def detail(state: TrialState = TrialState.PRUNED, until_step: int | None = 9) -> TrialDetail:
    summary = TrialSummary(
        trial=4,
        state=state,
        reason="",
        step=3,
        value=0.5,
        best_step=3,
        params={"lr": 0.01, "width": 8},
        segments=1,
        seconds=1.0,
    )
    segment = SegmentDetail(id="a", runner="local", from_step=0, until_step=until_step)
    return TrialDetail(summary=summary, seed=123, segments=[segment])


def test_equal_curves_have_no_differences() -> None:
    assert list(compare(curve(0.1, 0.2), curve(0.1, 0.2))) == []


def test_every_value_that_differs_is_found() -> None:
    found = list(compare(curve(0.1, 0.2, 0.3), curve(0.1, 0.25)))
    assert found == [
        Difference(2, "accuracy", 0.2, 0.25),
        Difference(3, "accuracy", 0.3, None),
    ]
    assert list(compare(curve(0.1, loss=1), curve(0.1))) == [Difference(1, "loss", 1, None)]
    assert list(compare(curve(0.1), curve(0.1, 0.2))) == [Difference(2, "accuracy", None, 0.2)]


def test_a_tolerance_lets_small_differences_pass() -> None:
    assert list(compare(curve(0.1), curve(0.1 + 1e-9), tolerance=1e-6)) == []
    assert len(list(compare(curve(0.1), curve(0.1 + 1e-9)))) == 1


def again(before: TrialDetail, **changes: Any) -> StudyConfig:
    config = parse_study(study_data(**changes), source="test").to_dict()
    return parse_study(study_of_trial(config, before, last_step=3), source="again")


def test_the_study_of_a_trial_trains_it_alone_with_its_seed_up_to_its_last_step() -> None:
    study = again(
        detail(),
        metric={"name": "accuracy", "direction": "maximize", "target": 0.4},
        sampler="tpe",
        trials=50,
        parallelism=7,
        max_trials=90,
        budget={"wall": "1s"},
        stop={"patience": 1},
        constraints=["width <= 4"],
        data={"version": "7"},
        deterministic=True,
        flow="rolling",
    )
    assert study.name == "small.again"
    assert (study.trials, study.parallelism, study.mapped_trials) == (1, 1, 1)
    assert study.enqueue == ({"lr": 0.01, "width": 8},)
    assert (study.trial_seed, study.cache, study.deterministic) == (123, False, True)
    assert study.create_scheduler().max_steps == 3
    assert study.objective.target is None
    assert (study.budget.wall, study.stop.patience, study.constraints) == (None, None, ())
    assert study.data.version == "7"


def test_a_training_that_decided_when_it_ended_decides_again() -> None:
    study = again(detail(TrialState.COMPLETED, until_step=None), scheduler="default")
    assert study.create_scheduler().max_steps is None


def test_code_that_has_changed_is_refused_with_the_commit_to_go_back_to(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    same = Provenance(code_hash=hash_code(tmp_path), commit="c0ffee")
    check_code(str(tmp_path), same)
    (tmp_path / "train.py").write_text("print(2)")
    with pytest.raises(CommandError, match=r"was trained with .* \(commit c0ffee\)"):
        check_code(str(tmp_path), same)
    check_code("/not/on/this/machine", same)


def test_what_has_changed_around_the_training_is_named() -> None:
    before = Provenance(code_hash="a", python="3.11.7", packages={"torch": "2.8", "yaml": "6"})
    after = Provenance(code_hash="a", python="3.12.1", packages={"torch": "2.9", "numpy": "2"})
    assert list(changes(before, after)) == [
        "python was 3.11.7, and is 3.12.1",
        "torch was 2.8, and is 2.9",
    ]
