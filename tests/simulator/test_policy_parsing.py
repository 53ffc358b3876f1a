"""Policies as words."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hpo_ops.allocators import DynamicFluid, Uniform
from hpo_ops.config import StudyError
from hpo_ops.schedulers import Asha, Default, HyperSched, Pop
from hpo_ops.simulator.policy_parsing import parse_options, parse_policies, split_policies
from tests.studies import study_data


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("asha", ["asha"]),
        ("asha,pop", ["asha", "pop"]),
        ("asha:eta=4,min_steps=2,pop", ["asha:eta=4,min_steps=2", "pop"]),
        ("asha:eta=4,pop:boundary=5", ["asha:eta=4", "pop:boundary=5"]),
        ("their.module:Class:a=1,b=[1,2],default", ["their.module:Class:a=1,b=[1,2]", "default"]),
        ("hypersched+uniform:speedups=[1.0,1.8],asha", ["hypersched+uniform:speedups=[1.0,1.8]",
                                                        "asha"]),
        ("a.yaml, b.yaml", ["a.yaml", "b.yaml"]),
        ("", []),
    ],
)  # fmt: skip
def test_several_policies_are_told_apart(text: str, pieces: list[str]) -> None:
    assert split_policies(text) == pieces


def test_options_are_read_as_yaml() -> None:
    assert parse_options("pop:kill_threshold=0.15,boundary=5") == (
        "pop",
        {"kill_threshold": 0.15, "boundary": 5},
    )
    assert parse_options("m.n:Class:on=true") == ("m.n:Class", {"on": True})
    assert parse_options("m.n:Class") == ("m.n:Class", {})


def test_policies_are_made_with_the_steps_of_the_traces() -> None:
    made = parse_policies(
        ["asha:eta=4,pop,default", "hypersched+uniform"], max_steps=27, rounds=True
    )
    assert list(made) == ["asha:eta=4", "pop", "default", "hypersched+uniform"]
    assert made["asha:eta=4"].scheduler == Asha(max_steps=27, eta=4)
    assert made["asha:eta=4"].rounds
    assert made["pop"].scheduler == Pop(max_steps=27)
    assert not made["pop"].rounds
    assert made["default"].scheduler == Default(max_steps=27)
    assert made["hypersched+uniform"].scheduler == HyperSched(max_steps=27)
    assert made["hypersched+uniform"].allocator == Uniform()
    made = parse_policies(["asha:max_steps=9"], max_steps=27, allocator="dynamic_fluid")
    assert made["asha:max_steps=9"].scheduler == Asha(max_steps=9)
    assert made["asha:max_steps=9"].allocator == DynamicFluid()


def test_a_study_file_stands_for_its_scheduler(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(study_data(code=".")))
    made = parse_policies([f"{file},default"], max_steps=27)
    assert made[str(file)].scheduler == Asha(max_steps=9)
    assert made[str(file)].rounds
    with pytest.raises(StudyError, match="cannot be read"):
        parse_policies([str(tmp_path / "none.yaml")], max_steps=27)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dance", "scheduler.name is 'dance', but must be one of asha"),
        ("asha:eta=1", "scheduler.eta is 1, but must be 2 or more"),
        ("asha:speed=1", "scheduler.speed is not an option"),
        ("asha:eta=4,=", "scheduler. is not an option"),
        ("asha:eta=[", "is not a value"),
        ("eta=4", "is not of the form name:key=value"),
        ("asha+dance", "allocator.name is 'dance'"),
        (",", "must name one or more"),
    ],
)
def test_a_wrong_policy_is_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        parse_policies([text], max_steps=9)
