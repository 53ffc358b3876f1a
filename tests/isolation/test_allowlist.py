"""The operator's allowlist: nothing is imported that is not on it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpo_ops.core import Scheduler
from hpo_ops.isolation import allowlist
from hpo_ops.isolation.allowlist import (
    NotAllowedError,
    all_installed_classes_allowed,
    is_allowed,
    load_allowed,
)
from hpo_ops.samplers._sampler_registry import is_algorithm
from hpo_ops.schedulers import create_scheduler

MODULE = "a_package_of_theirs"
TARGET = f"{MODULE}:Theirs"
SOURCE = """
from hpo_ops.schedulers._default import Default
from optuna.samplers import RandomSampler
class Theirs(Default): pass
class Sampler(RandomSampler): pass
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed module that is not imported yet; `announce` gives it entry points."""
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    allowlist._registered.cache_clear()
    yield tmp_path
    sys.modules.pop(MODULE, None)
    allowlist._registered.cache_clear()


def announce(folder: Path, text: str) -> None:
    """Installs a package with entry points, as pip would."""
    info = folder / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(text)


def test_nothing_is_allowed_by_default(package: Path) -> None:
    with pytest.raises(NotAllowedError, match="HPO_ALLOWED_CLASSES"):
        load_allowed(TARGET)
    assert MODULE not in sys.modules


@pytest.mark.parametrize("listed", [f"{MODULE}:Other", MODULE, f"{MODULE}:", "*", f"{TARGET}2"])
def test_only_the_very_name_counts(
    package: Path, monkeypatch: pytest.MonkeyPatch, listed: str
) -> None:
    monkeypatch.setenv(allowlist.VARIABLE, listed)
    assert not is_allowed(TARGET)


def test_the_setting_allows_a_class(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(allowlist.VARIABLE, f"x:Y , {TARGET}")
    made: Scheduler = create_scheduler(TARGET, {"max_steps": 3})
    assert made.max_steps == 3


def test_an_installed_package_announces_its_classes_by_entry_points(package: Path) -> None:
    announce(
        package,
        f"[hpo_ops.schedulers]\ntheirs = {TARGET}\n"
        f"[hpo_ops.samplers]\ntheir_sampler = {MODULE}:Sampler\n",
    )
    for name in ("theirs", TARGET):
        assert create_scheduler(name, {"max_steps": 3}).max_steps == 3
    assert not is_algorithm("their_sampler")
    assert not is_algorithm(f"{MODULE}:Sampler")
    # What is announced as a sampler is no scheduler.
    with pytest.raises(ValueError, match="has not allowed it"):
        create_scheduler(f"{MODULE}:Sampler", {})
    with pytest.raises(ValueError, match=r"must be one of .*theirs, threshold"):
        create_scheduler("their", {})


def test_an_installed_algorithm_is_never_imported_here(package: Path) -> None:
    assert is_algorithm(f"{MODULE}:Sampler")
    assert MODULE not in sys.modules


def test_a_users_own_command_takes_every_installed_class_while_it_runs(package: Path) -> None:
    elsewhere: list[bool] = []
    with all_installed_classes_allowed():
        assert is_allowed(TARGET)
        thread = threading.Thread(target=lambda: elsewhere.append(is_allowed(TARGET)))
        thread.start()
        thread.join()
    assert elsewhere == [False]
    assert not is_allowed(TARGET)
