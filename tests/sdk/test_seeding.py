"""The trial's seed reaches what its training draws from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hpo_ops.protocol import Provenance
from tests.sdk.test_trial import Desk

DRAWS = """
import random
import numpy
from hpo_ops.sdk import trial
trial.checkpointed(
    save=lambda folder: (folder / "x").write_text(""), load=lambda folder: None
)
for step in trial.steps():
    trial.report(step, random.random() + numpy.random.random())
"""
LATE = """
from hpo_ops.sdk import trial
trial.params
import numpy
for step in trial.steps():
    trial.report(step, numpy.random.random())
"""
TORCH = """
import torch
from hpo_ops.sdk import trial
for step in trial.steps():
    trial.report(step, torch.rand(1).item() + torch.are_deterministic_algorithms_enabled())
"""


@pytest.fixture
def desks(tmp_path: Path) -> list[Desk]:
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    return [Desk(folder) for folder in folders]


@pytest.mark.parametrize("code", [DRAWS, LATE], ids=["at the top", "imported late"])
def test_python_and_numpy_are_seeded_with_the_seed_of_the_trial(
    desks: list[Desk], code: str
) -> None:
    one, same, other = (
        desk.run(code, seed=seed, until_step=3).values
        for desk, seed in zip(desks, (11, 11, 12), strict=True)
    )
    assert len(set(one.values())) == 3
    assert one == same
    assert not set(one.values()) & set(other.values())


def test_a_deterministic_trial_draws_the_same_after_it_was_resumed(desks: list[Desk]) -> None:
    fields = {"until_step": 4, "deterministic": True}
    whole = desks[0].run(DRAWS, **fields).values
    desks[1].run(DRAWS, **{**fields, "until_step": 2})
    desks[1].workspace.reports.unlink()
    resumed = desks[1].run(DRAWS, **fields, from_step=2).values
    assert resumed == {step: whole[step] for step in (3, 4)}
    assert len(set(whole.values())) == 4


def test_torch_is_seeded_and_deterministic_where_the_study_asks_for_it(desks: list[Desk]) -> None:
    pytest.importorskip("torch")
    one = desks[0].run(TORCH, until_step=2, deterministic=True).values
    two = desks[1].run(TORCH, until_step=2, deterministic=True).values
    plain = desks[2].run(TORCH, until_step=2).values
    assert one == two
    assert min(one.values()) >= 1
    assert max(plain.values()) < 1


def test_a_training_says_what_it_runs_with(desks: list[Desk]) -> None:
    ran = desks[0].run(DRAWS, until_step=1)
    found = Provenance.from_json(ran.workspace.software.read_bytes())
    import numpy as np

    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert found.packages["numpy"] == np.__version__
    assert "json" not in found.packages
    assert "pytest" not in found.packages
