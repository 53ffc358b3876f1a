"""Code archives of strangers: looked through before anything of them is kept."""

from __future__ import annotations

import contextlib
import gzip
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from hpo_ops.checkpoints.code import BadCodeError, copy_code, fetch_code, hash_code, upload_code
from hpo_ops.checkpoints.manifest import check_path
from hpo_ops.checkpoints.store import Store

MAX_PACKED = 64 << 20
"""Bytes of an archive as it is sent."""
MAX_UNPACKED = 256 << 20
"""Bytes of an archive without its compression."""
MAX_FILES = 10_000
_ADDRESS = re.compile(r"(?P<store>(s3|file)://.+?)/(?P<name>code/(?P<hash>[0-9a-f]{32})\.tar\.gz)")


def unpack_archive(packed: BinaryIO, target: Path) -> None:
    """Unpacks a tar.gz of anyone's in an empty folder.

    Raises:
        BadCodeError: It is no such archive, is too large, or has anything in it but files and
            folders with names that stay inside; names what was found.
    """
    with tempfile.TemporaryFile() as plain:
        _decompress(packed, plain)
        plain.seek(0)
        try:
            with tarfile.open(fileobj=plain, mode="r:") as archive:
                for count, item in enumerate(archive):
                    if count >= MAX_FILES:
                        raise BadCodeError(f"the archive has more than {MAX_FILES} files")
                    _unpack(archive, item, target)
        except (tarfile.TarError, EOFError, UnicodeError, ValueError) as error:
            if isinstance(error, BadCodeError):
                raise
            raise BadCodeError(f"the archive is no tar file: {error}") from error


def _decompress(packed: BinaryIO, plain: BinaryIO) -> None:
    """Without its compression an archive cannot be larger than it says."""
    size = 0
    try:
        with gzip.open(packed) as stream:
            while chunk := stream.read(1 << 20):
                size += len(chunk)
                if size > MAX_UNPACKED:
                    raise BadCodeError(
                        f"the archive has more than {MAX_UNPACKED >> 20} MiB in it: "
                        "keep data elsewhere"
                    )
                plain.write(chunk)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadCodeError(f"the archive is no tar.gz file: {error}") from error


def _unpack(archive: tarfile.TarFile, item: tarfile.TarInfo, target: Path) -> None:
    name = re.sub(r"^(\./)+", "", item.name).rstrip("/")
    if item.isdir() and name in ("", "."):
        return
    try:
        check_path(name)
    except ValueError as error:
        raise BadCodeError(f"{item.name!r} in the archive: {error}") from error
    if item.isdir():
        return
    content = archive.extractfile(item) if item.isreg() else None
    if content is None:
        kind = "a link" if item.issym() or item.islnk() else "no regular file"
        raise BadCodeError(f"{item.name!r} in the archive is {kind}, but must be a file")
    path = target / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as stream:
            shutil.copyfileobj(content, stream)
    except OSError as error:  # a file in the place of a folder, a name twice, a name too long
        raise BadCodeError(f"{item.name!r} in the archive: {error.strerror}") from error
    path.chmod(0o755 if item.mode & 0o100 else 0o644)


def find_module(folder: Path, module: str) -> Path | None:
    """The folder from which a module of unpacked code can be imported.

    That is the folder itself, or the only one in it, as in an archive that setuptools made.
    """
    inner = [path for path in folder.iterdir() if path.is_dir()]
    path = Path(*module.split("."))
    for root in [folder, *inner[: len(inner) == 1]]:
        if (root / path).with_suffix(".py").is_file() or (root / path / "__init__.py").is_file():
            return root
    return None


def keep_code(store: Store, folder: Path, here: Path) -> str:
    """Brings a folder of code to the store, and to a folder of this machine's.

    Returns:
        Its name in the store; `local_code` finds it.
    """
    name = upload_code(store, folder)
    _place(here / hash_code(folder), lambda target: copy_code(folder, target))
    return name


def archive_name(digest: str) -> str:
    """The name in the store of code with a hash."""
    return f"code/{digest}.tar.gz"


def is_packed(code: str) -> bool:
    """Whether a study's code is an archive in a store instead of a folder."""
    return "://" in code


def split_address(address: str) -> tuple[str, str]:
    """The store and the name in it of an archive, such as ``s3://models/code/<hash>.tar.gz``.

    Raises:
        BadCodeError: It is no address of packed code.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise BadCodeError(
            f"code is {address!r}, but must be a folder, or s3://<store>/code/<hash>.tar.gz"
        )
    return found["store"], found["name"]


def local_code(store: Store, name: str, here: Path) -> Path:
    """The folder of this machine's with the code of an archive; it is fetched where it is not.

    Raises:
        BadCodeError: The archive is not what its name says.
    """
    digest = name.removeprefix("code/").removesuffix(".tar.gz")

    def fetch(target: Path) -> None:
        fetch_code(store, name, target)
        if hash_code(target) != digest:
            raise BadCodeError(f"{name} in the store is not what its name says")

    return _place(here / digest, fetch)


def _place(target: Path, fill: Callable[[Path], None]) -> Path:
    """Fills a folder aside and renames it: it is there as a whole, or it is not."""
    if target.is_dir():
        return target
    aside = target.with_name(f"{target.name}.{uuid4().hex[:8]}")
    aside.mkdir(parents=True)
    try:
        fill(aside)
        with contextlib.suppress(OSError):  # another was faster
            aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target
