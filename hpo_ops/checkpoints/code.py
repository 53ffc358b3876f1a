"""Training code in the store: packed, named by what is in it, uploaded once."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore

from hpo_ops.checkpoints.manifest import check_path
from hpo_ops.checkpoints.store import Store
from hpo_ops.checkpoints.transfer import receive

LEFT_OUT = {".git", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
"""Folders that are no part of the code."""
MAX_BYTES = 512 << 20


class BadCodeError(ValueError):
    """A folder of code cannot be packed."""


def hash_code(folder: Path) -> str:
    """The name of a folder's content: another one as soon as one file is another.

    Raises:
        BadCodeError: The folder is empty, or too large to be code.
    """
    digest = hashlib.sha256()
    for path, name in _code(folder):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{name}\0{_mode(path):o}\0{content}\n".encode())
    return digest.hexdigest()[:32]


def find_packages(folder: Path) -> list[str]:
    """What pip is to install for a folder of code, as its arguments; empty where it asks for none.

    The folder itself is installed where it says how: by a ``[build-system]`` or a ``setup.py``.
    A ``[project]`` without one only lists what it needs.

    Raises:
        BadCodeError: Its pyproject.toml cannot be read.
    """
    listed = ["-r", "requirements.txt"] if (folder / "requirements.txt").is_file() else []
    project = _read_project(folder / "pyproject.toml")
    if "build-system" in project or (folder / "setup.py").is_file():
        return [*listed, "."]
    needed = project.get("project", {}).get("dependencies", [])
    if not isinstance(needed, list) or not all(isinstance(item, str) for item in needed):
        raise BadCodeError(f"{folder}/pyproject.toml: project.dependencies must be a list of text")
    return [*listed, *needed]


def _read_project(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise BadCodeError(f"{file} cannot be read: {error}") from error


def copy_code(folder: Path, target: Path) -> None:
    """Copies what `pack_code` would pack."""
    for path, name in _files(folder):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
        (target / name).chmod(_mode(path))


def upload_code(store: Store, folder: Path) -> str:
    """Brings a folder of code to the store, unless it is there; returns its name in it.

    Raises:
        BadCodeError: The folder is empty, or too large to be code.
    """
    name = f"code/{hash_code(folder)}.tar.gz"
    try:
        obstore.head(store, name)
    except FileNotFoundError:
        obstore.put(store, name, pack_code(folder))
    return name


def fetch_code(store: Store, name: str, target: Path) -> None:
    """Downloads packed code and unpacks it in a folder.

    Raises:
        BadCodeError: The archive has something else in it than files of the folder.
    """
    archive = target.with_name(f"{target.name}.tar.gz")
    archive.unlink(missing_ok=True)
    receive(store, name, archive)
    with tarfile.open(archive) as packed:
        for item in packed:
            _unpack(packed, item, target)
    archive.unlink()


def _unpack(packed: tarfile.TarFile, item: tarfile.TarInfo, target: Path) -> None:
    content = packed.extractfile(item) if item.isreg() else None
    try:
        check_path(item.name)
    except ValueError as error:
        raise BadCodeError(f"{item.name!r} in the code archive: {error}") from error
    if content is None:
        raise BadCodeError(f"{item.name!r} in the code archive is not a regular file")
    path = target / item.name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        shutil.copyfileobj(content, stream)
    path.chmod(item.mode & 0o777)


def pack_code(folder: Path) -> bytes:
    """A folder as an archive, byte for byte the same for the same content."""
    files = _code(folder)
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, name in files:
            item = tarfile.TarInfo(name)
            item.size, item.mode = path.stat().st_size, _mode(path)
            with path.open("rb") as stream:
                archive.addfile(item, stream)
    return packed.getvalue()


def _code(folder: Path) -> list[tuple[Path, str]]:
    files = list(_files(folder))
    if not files:
        raise BadCodeError(f"{folder} has no files to pack")
    size = sum(path.stat().st_size for path, _ in files)
    if size > MAX_BYTES:
        raise BadCodeError(
            f"{folder} has {size >> 20} MiB, but code may have {MAX_BYTES >> 20} MiB at most: "
            "keep data elsewhere"
        )
    return files


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in names:
            path = Path(place, name)
            if path.is_file() and not name.endswith(".pyc"):
                found.append((path, path.relative_to(folder).as_posix()))
    yield from sorted(found, key=lambda item: item[1])


def _mode(path: Path) -> int:
    return 0o755 if os.access(path, os.X_OK) else 0o644
