"""The registry of runners."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest

from hpo_ops.config import runner_registry
from hpo_ops.config.runner_registry import (
    UnknownRunnerError,
    all_runners,
    find_runner,
    runner_names,
)


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Entry points of other packages, by name."""
    entries: dict[str, str] = {}
    module = ModuleType("team_slurm")
    module.RUNNER = SimpleNamespace(name="slurm")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "team_slurm", module)
    monkeypatch.setattr(runner_registry, "registered", lambda group: entries)
    monkeypatch.setattr(runner_registry, "load_allowed", lambda target, group: _load(target))
    for cached in (find_runner, all_runners):
        cached.cache_clear()
    yield entries
    for cached in (find_runner, all_runners):
        cached.cache_clear()


def _load(target: str) -> object:
    module, _, name = target.partition(":")
    if module not in sys.modules:
        raise ValueError(f"it cannot be imported: no {module}")
    return getattr(sys.modules[module], name)


def test_a_runner_of_another_package_is_found_by_its_entry_point(
    announced: dict[str, str],
) -> None:
    announced["slurm"] = "team_slurm:RUNNER"
    assert find_runner("slurm").name == "slurm"
    assert "slurm" in runner_names()
    assert "slurm" in all_runners()


def test_an_unknown_runner_is_refused_with_the_names_of_those_there_are(
    announced: dict[str, str],
) -> None:
    announced["slurm"] = "team_slurm:RUNNER"
    with pytest.raises(UnknownRunnerError, match=r"runner is 'pbs', but must be one of .*slurm"):
        find_runner("pbs")


def test_a_runner_must_have_the_name_that_it_is_announced_with(announced: dict[str, str]) -> None:
    announced["lsf"] = "team_slurm:RUNNER"
    with pytest.raises(UnknownRunnerError, match="team_slurm:RUNNER is the runner 'slurm'"):
        find_runner("lsf")


def test_a_runner_that_cannot_be_imported_does_not_hide_the_others(
    announced: dict[str, str],
) -> None:
    announced |= {"slurm": "team_slurm:RUNNER", "broken": "no_such_module:RUNNER"}
    assert "slurm" in all_runners()
    assert "broken" not in all_runners()
    with pytest.raises(UnknownRunnerError, match="cannot be imported"):
        find_runner("broken")
