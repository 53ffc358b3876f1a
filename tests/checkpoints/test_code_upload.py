from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import obstore
import pytest

from hpo_ops.checkpoints import (
    BadCodeError,
    copy_code,
    fetch_code,
    find_packages,
    hash_code,
    open_store,
    upload_code,
)
from hpo_ops.checkpoints.code_upload import pack_code


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)")
    (folder / "lib" / "model.py").write_text("x = 1")
    (folder / "run.sh").write_text("#!/bin/sh")
    (folder / "run.sh").chmod(0o755)
    return folder


def names(archive: bytes) -> dict[str, int]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        return {item.name: item.mode for item in packed}


def test_the_same_content_has_the_same_name_and_the_same_bytes(code: Path) -> None:
    before, packed = hash_code(code), pack_code(code)
    os.utime(code / "train.py", (1, 1))
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "x.pyc").write_bytes(b"1")
    (code / ".git").mkdir()
    (code / ".git" / "HEAD").write_text("ref")
    assert (hash_code(code), pack_code(code)) == (before, packed)
    assert names(packed) == {"lib/model.py": 0o644, "run.sh": 0o755, "train.py": 0o644}


@pytest.mark.parametrize("change", ["content", "name", "mode"])
def test_a_changed_file_means_another_name(code: Path, change: str) -> None:
    before = hash_code(code)
    file = code / "train.py"
    if change == "content":
        file.write_text("print(2)")
    elif change == "name":
        file.rename(code / "main.py")
    else:
        file.chmod(0o755)
    assert hash_code(code) != before


def test_code_that_is_there_is_not_uploaded_again(code: Path) -> None:
    store = open_store("memory:///")
    name = upload_code(store, code)
    obstore.put(store, name, b"what is there")
    assert upload_code(store, code) == name
    assert bytes(obstore.get(store, name).bytes()) == b"what is there"
    (code / "train.py").write_text("print(2)")
    assert upload_code(store, code) != name


def test_code_comes_out_as_it_went_in(code: Path, tmp_path: Path) -> None:
    store = open_store("memory:///")
    fetch_code(store, upload_code(store, code), tmp_path / "there")
    assert hash_code(tmp_path / "there") == hash_code(code)


@pytest.mark.parametrize("kind", ["outside", "link"])
def test_an_archive_cannot_write_elsewhere(tmp_path: Path, kind: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        item = tarfile.TarInfo("../x" if kind == "outside" else "x")
        if kind == "link":
            item.type, item.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(item, io.BytesIO(b""))
    store = open_store("memory:///")
    name = f"code/{'0' * 32}.tar.gz"
    obstore.put(store, name, packed.getvalue())
    with pytest.raises(BadCodeError, match="in the archive"):
        fetch_code(store, name, tmp_path / "there")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_files_is_no_code(tmp_path: Path) -> None:
    with pytest.raises(BadCodeError, match="has no files to pack"):
        upload_code(open_store("memory:///"), tmp_path)


BUILT = '[build-system]\nrequires = ["setuptools"]\n'
LISTED = '[project]\nname = "x"\ndependencies = ["numpy>=2", "rich"]\n'


@pytest.mark.parametrize(
    ("files", "packages"),
    [
        ({}, []),
        ({"requirements.txt": "numpy"}, ["-r", "requirements.txt"]),
        ({"setup.py": ""}, ["."]),
        ({"pyproject.toml": BUILT + LISTED}, ["."]),
        ({"pyproject.toml": BUILT, "requirements.txt": ""}, ["-r", "requirements.txt", "."]),
        # Without a word on how it is built, it is not: what it needs is enough.
        ({"pyproject.toml": LISTED}, ["numpy>=2", "rich"]),
        ({"pyproject.toml": "[tool.ruff]\nline-length = 99\n"}, []),
    ],
)
def test_what_a_folder_asks_for(code: Path, files: dict[str, str], packages: list[str]) -> None:
    for name, text in files.items():
        (code / name).write_text(text)
    assert find_packages(code) == packages


@pytest.mark.parametrize("text", ["[project", "[project]\ndependencies = 3\n"])
def test_a_project_that_cannot_be_read_is_told(code: Path, text: str) -> None:
    (code / "pyproject.toml").write_text(text)
    with pytest.raises(BadCodeError, match=r"pyproject\.toml"):
        find_packages(code)


def test_a_copy_of_code_is_what_would_be_packed(code: Path, tmp_path: Path) -> None:
    (code / ".git").mkdir()
    (code / ".git" / "HEAD").write_text("ref")
    copy_code(code, tmp_path / "there")
    assert not (tmp_path / "there" / ".git").exists()
    assert hash_code(tmp_path / "there") == hash_code(code)


def test_a_link_that_leaves_the_folder_is_not_packed(code: Path, tmp_path: Path) -> None:
    """Who may write to the folder may not read what the worker can."""
    (tmp_path / "airflow.cfg").write_text("fernet_key = hunter2")
    (code / "config.py").symlink_to(tmp_path / "airflow.cfg")
    with pytest.raises(BadCodeError, match=r"config\.py is a link that leaves the folder"):
        pack_code(code)


def test_links_inside_of_the_folder_are_packed_as_what_they_lead_to(code: Path) -> None:
    """A ConfigMap is mounted like this, and a folder of code may be a link itself."""
    (code / "..data").symlink_to("lib")
    (code / "model.py").symlink_to("..data/model.py")
    (code.parent / "current").symlink_to(code)
    assert "model.py" in names(pack_code(code.parent / "current"))
    assert hash_code(code.parent / "current") == hash_code(code)
