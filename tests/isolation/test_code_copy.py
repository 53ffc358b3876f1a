"""Copies of code for another user: nothing that only its owner may read is in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpo_ops.isolation import _code_copy
from hpo_ops.isolation._code_copy import copy_code


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "inner").mkdir(parents=True)
    (folder / "mine.py").write_text("x = 1")
    (folder / "inner" / "data.bin").write_bytes(b"\0" * 3_000_000)
    folder.chmod(0o700)
    return folder


def test_a_folder_that_others_cannot_reach_is_copied_for_them(
    source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    copy_code(source, target)
    assert (target / "mine.py").read_text() == "x = 1"
    assert (target / "inner" / "data.bin").stat().st_size == 3_000_000
    assert target.stat().st_mode & 0o777 == 0o755
    assert (target / "mine.py").stat().st_mode & 0o777 == 0o644


def test_what_only_its_owner_may_read_stays_where_it_is(source: Path, tmp_path: Path) -> None:
    (source / "secrets.json").write_text("secret")
    (source / "secrets.json").chmod(0o600)
    (source / "private").mkdir(mode=0o700)
    (source / "private" / "key").write_text("secret")
    (source / ".hpo").mkdir()
    (source / ".hpo" / "password").write_text("secret")
    (source / "link").symlink_to(source / "secrets.json")
    (source / "loop").symlink_to(source)
    os.mkfifo(source / "pipe")
    target = tmp_path / "target"
    copy_code(source, target)
    assert sorted(path.name for path in target.rglob("*")) == [
        "data.bin",
        "inner",
        "link",
        "loop",
        "mine.py",
    ]
    assert (target / "link").is_symlink()
    assert not any(
        b"secret" in path.read_bytes()
        for path in target.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


def test_code_that_only_its_owner_may_read_is_an_error(source: Path, tmp_path: Path) -> None:
    (source / "mine.py").chmod(0o600)
    with pytest.raises(OSError, match=r"mine\.py is readable by its owner only"):
        copy_code(source, tmp_path / "target")


def test_a_folder_that_is_too_large_is_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_code_copy, "MAX_BYTES", 1 << 20)
    with pytest.raises(OSError, match="at most 1 are copied"):
        copy_code(source, tmp_path / "target")
