"""Packs a folder of training code and uploads the archive under the hash of its content.

Code with the same content is uploaded only once.
"""

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
from typing import Any, BinaryIO, NamedTuple

import obstore

from hpo_ops.checkpoints._object_stores import Store
from hpo_ops.protocol import Folder, UnsafeFileError

LEFT_OUT = {".git", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
"""Names of folders that are not part of the code: they are neither packed nor hashed."""
MAX_BYTES = 512 << 20
CHUNK_BYTES = 1 << 20
HASH_LENGTH = 32


class BadCodeError(ValueError):
    """A folder or an archive of code cannot be used; the message states the reason."""


def hash_code(folder: Path) -> str:
    """Returns the hash of a folder of code: of the files' paths, contents and executable bits.

    Raises:
        BadCodeError: The folder is empty, too large, or contains a link to a path outside it.
    """
    digest = hashlib.sha256()
    with _opened(folder) as source:
        for file in _code(source):
            content = hashlib.sha256()
            with _open(source, file.name) as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    content.update(chunk)
            digest.update(f"{file.name}\0{file.mode:o}\0{content.hexdigest()}\n".encode())
    return digest.hexdigest()[:HASH_LENGTH]


def find_packages(folder: Path) -> list[str]:
    """Returns the arguments of ``pip install`` for the packages that a folder of code needs.

    The list is empty if the code needs no packages. A ``requirements.txt`` is installed. If there
    is a ``setup.py``, or ``pyproject.toml`` has a ``[build-system]``, the folder itself is
    installed; otherwise only the dependencies in ``[project]`` are installed.

    Raises:
        BadCodeError: The folder's pyproject.toml is invalid.
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
    """Copies a folder of code to another folder, without the files that `pack_code` excludes.

    Raises:
        BadCodeError: The folder does not exist, or contains a link to a path outside the folder.
    """
    with _opened(folder) as source:
        for file in _files(source):
            path = target / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with _open(source, file.name) as stream, path.open("wb") as copied:
                shutil.copyfileobj(stream, copied)
            path.chmod(file.mode)


def upload_code(store: Store, folder: Path) -> str:
    """Uploads a folder of code as an archive and returns the archive's name in the store.

    Code that the store has already is not uploaded again.

    Raises:
        BadCodeError: The folder is empty, too large, or contains a link to a path outside it.
    """
    name = f"code/{hash_code(folder)}.tar.gz"
    try:
        obstore.head(store, name)
    except FileNotFoundError:
        obstore.put(store, name, pack_code(folder))
    return name


def pack_code(folder: Path) -> bytes:
    """Packs a folder of code as a tar.gz; the same content always gives the same bytes.

    Raises:
        BadCodeError: The folder is empty, too large, or contains a link to a path outside it.
    """
    packed = io.BytesIO()
    with (
        _opened(folder) as source,
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in _code(source):
            item = tarfile.TarInfo(file.name)
            with _open(source, file.name) as stream:
                item.size, item.mode = os.fstat(stream.fileno()).st_size, file.mode
                archive.addfile(item, stream)
    return packed.getvalue()


def is_left_out(name: str) -> bool:
    """Returns whether a file is excluded from the code, and so neither packed nor hashed."""
    *folders, file = name.split("/")
    return not LEFT_OUT.isdisjoint(folders) or file.endswith(".pyc")


class _CodeFile(NamedTuple):
    name: str
    mode: int
    size: int


def _opened(folder: Path) -> Folder:
    """Opens a folder of code; the path that the study names may itself be a link to the folder.

    Raises:
        BadCodeError: The folder does not exist.
    """
    try:
        return Folder.open(folder.resolve())
    except (FileNotFoundError, UnsafeFileError) as error:
        raise BadCodeError(f"{folder} has no files to pack") from error


def _open(source: Folder, name: str) -> BinaryIO:
    try:
        return source.file(name)
    except UnsafeFileError as error:
        raise BadCodeError(f"{source.path}: {error}") from error


def _code(source: Folder) -> list[_CodeFile]:
    files = list(_files(source))
    if not files:
        raise BadCodeError(f"{source.path} has no files to pack")
    size = sum(file.size for file in files)
    if size > MAX_BYTES:
        raise BadCodeError(
            f"{source.path} has {size >> 20} MiB, but code may have {MAX_BYTES >> 20} MiB at "
            "most: keep data elsewhere"
        )
    return files


def _files(source: Folder) -> Iterator[_CodeFile]:
    """Yields the files of a folder of code, sorted by path.

    A link to a file inside the folder counts as a file.
    """
    for name in sorted(source.files(skip=LEFT_OUT)):
        # Broken links, links to folders, pipes and sockets are skipped as well.
        if is_left_out(name) or not (source.path / name).is_file():
            continue
        with _open(source, name) as stream:
            status = os.fstat(stream.fileno())
        yield _CodeFile(name, 0o755 if status.st_mode & 0o111 else 0o644, status.st_size)
