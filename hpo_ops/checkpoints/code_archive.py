"""Unpacks code archives safely, and downloads them by the hash of their content.

A code archive is a ``tar.gz`` in the object store with the training code of a study.
"""

from __future__ import annotations

import contextlib
import gzip
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Self
from uuid import uuid4

from hpo_ops.checkpoints._file_transfer import TooLargeError, receive
from hpo_ops.checkpoints._object_stores import Store
from hpo_ops.checkpoints.code_upload import (
    MAX_BYTES,
    BadCodeError,
    copy_code,
    hash_code,
    is_left_out,
    upload_code,
)
from hpo_ops.checkpoints.manifest import check_path

MAX_PACKED = 64 << 20
"""The largest size in bytes of an archive that a user uploads."""
MAX_UNPACKED = 256 << 20
"""The largest size in bytes of an archive that a user uploads, after decompression."""
MAX_FILES = 10_000
"""The largest number of entries, and of folders, of an archive that a user uploads."""
MAX_STORED_FILES = 200_000
"""The largest number of entries, and of folders, of an archive that the platform has packed."""
MAX_PATH = 1024
"""The largest number of characters of a path in an archive."""
MAX_FOLDERS = 64
"""The largest number of nested folders of a path in an archive."""
MAX_HEADER = 64 << 10
"""The largest size in bytes of an entry's extended header, which is read into memory."""
CHUNK_BYTES = 1 << 20
_ADDRESS = re.compile(r"(?P<store>(s3|file)://.+?)/(?P<name>code/(?P<hash>[0-9a-f]{32})\.tar\.gz)")
_NAME = re.compile(r"code/(?P<hash>[0-9a-f]{32})\.tar\.gz")
_EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def unpack_archive(packed: BinaryIO, target: Path) -> None:
    """Unpacks an untrusted tar.gz into an empty folder.

    Raises:
        BadCodeError: The input is not a tar.gz, is too large, or contains an entry that is not a
            regular file or folder inside the target; the message names the entry.
    """
    _Unpacking(target, max_bytes=MAX_UNPACKED, max_files=MAX_FILES).run(packed)


class _Header(tarfile.TarInfo):
    """A tar header; reading it fails if it is too large or belongs to a sparse file."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        item = super().frombuf(buf, encoding, errors)
        if item.type in _EXTENDED and item.size > MAX_HEADER:
            raise BadCodeError(
                f"the archive has an entry with a header of {item.size} bytes, but at most "
                f"{MAX_HEADER} are allowed"
            )
        if item.type == tarfile.GNUTYPE_SPARSE:
            raise BadCodeError(_sparse(item.name))
        return item


@dataclass
class _Unpacking:
    """Unpacks one archive and limits its bytes, entries and folders.

    Attributes:
        target: The folder to unpack into.
        max_bytes: The largest size in bytes of the decompressed archive, and of all written files.
        max_files: The largest number of entries, and of folders.
        written: The number of bytes written so far.
    """

    target: Path
    max_bytes: int
    max_files: int
    written: int = 0

    def __post_init__(self) -> None:
        self.folders: set[Path] = set()

    def run(self, packed: BinaryIO) -> None:
        with tempfile.TemporaryFile() as plain:
            self._decompress(packed, plain)
            plain.seek(0)
            try:
                with tarfile.open(fileobj=plain, mode="r:", tarinfo=_Header) as archive:
                    for count, item in enumerate(archive):
                        if count >= self.max_files:
                            raise BadCodeError(f"the archive has more than {self.max_files} files")
                        self._unpack(archive, item)
            except BadCodeError:
                raise
            except (tarfile.TarError, EOFError, RecursionError, ValueError) as error:
                raise BadCodeError(f"the archive is not a tar file: {error}") from error

    def _decompress(self, packed: BinaryIO, plain: BinaryIO) -> None:
        """Decompresses a tar.gz archive into a tar file.

        Limiting the decompressed size before the tar file is read protects against zip bombs.

        Raises:
            BadCodeError: The archive is not a tar.gz, or the tar file exceeds `max_bytes`.
        """
        size = 0
        try:
            with gzip.open(packed) as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    size += len(chunk)
                    if size > self.max_bytes:
                        raise self._too_large()
                    plain.write(chunk)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise BadCodeError(f"the archive is not a tar.gz file: {error}") from error

    def _unpack(self, archive: tarfile.TarFile, item: tarfile.TarInfo) -> None:
        name = re.sub(r"^(\./)+", "", item.name).rstrip("/")
        if item.isdir() and name in ("", "."):
            return
        _check_entry(item, name)
        if item.isdir():
            return
        content = archive.extractfile(item)
        if content is None:
            raise BadCodeError(f"{item.name!r} in the archive is not a regular file")
        path = self.target / name
        try:
            self._make_folder(path.parent)
            with path.open("xb") as stream:
                while chunk := content.read(CHUNK_BYTES):
                    self.written += len(chunk)
                    if self.written > self.max_bytes:
                        raise self._too_large()
                    stream.write(chunk)
        except OSError as error:  # a file where a folder must be, a duplicate, a name too long
            raise BadCodeError(f"{item.name!r} in the archive: {error.strerror}") from error
        path.chmod(0o755 if item.mode & 0o100 else 0o644)

    def _make_folder(self, folder: Path) -> None:
        if folder in self.folders:
            return
        self.folders.update(
            path for path in (folder, *folder.parents) if path.is_relative_to(self.target)
        )
        if len(self.folders) > self.max_files + 1:
            raise BadCodeError(f"the archive has more than {self.max_files} folders")
        folder.mkdir(parents=True, exist_ok=True)

    def _too_large(self) -> BadCodeError:
        return BadCodeError(
            f"the archive has more than {self.max_bytes >> 20} MiB in it: keep data elsewhere"
        )


def _check_entry(item: tarfile.TarInfo, name: str) -> None:
    """Checks that an entry is a regular file or a folder with a safe path.

    Raises:
        BadCodeError: The entry must not be unpacked; the message states the reason.
    """
    if len(name) > MAX_PATH or name.count("/") > MAX_FOLDERS:
        raise BadCodeError(
            f"{item.name[:60]!r}… in the archive: a path may have {MAX_PATH} characters and "
            f"{MAX_FOLDERS} folders at most"
        )
    try:
        check_path(name)
        name.encode()
    except ValueError as error:
        raise BadCodeError(f"{item.name!r} in the archive: {error}") from error
    if item.issparse() or any(key.startswith("GNU.sparse") for key in item.pax_headers):
        raise BadCodeError(_sparse(item.name))
    if not item.isreg() and not item.isdir():
        kind = "a link" if item.issym() or item.islnk() else "not a regular file"
        raise BadCodeError(f"{item.name!r} in the archive is {kind}, but must be a file")


def _sparse(name: str) -> str:
    return f"{name!r} in the archive is a sparse file: pack it without tar's option --sparse"


def fetch_code(store: Store, name: str, target: Path) -> None:
    """Downloads a code archive, unpacks it into a new or empty folder, and verifies its hash.

    Args:
        store: The object store.
        name: The archive's name in the store, ``code/<hash>.tar.gz``.
        target: The folder to unpack the code into; must be empty or not exist.

    Raises:
        BadCodeError: The name is not that of a code archive, the content does not have the hash in
            the name, or the archive must not be unpacked. The target is then left unchanged.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise BadCodeError(f"the code archive is {name!r}, but must be code/<hash>.tar.gz")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as aside:
        packed, unpacked = Path(aside) / "packed.tar.gz", Path(aside) / "code"
        try:
            receive(store, name, packed, at_most=MAX_BYTES)
        except TooLargeError as error:
            raise BadCodeError(str(error)) from error
        unpacked.mkdir()
        with packed.open("rb") as stream:
            _Unpacking(unpacked, max_bytes=2 * MAX_BYTES, max_files=MAX_STORED_FILES).run(stream)
        _verify(unpacked, name, found["hash"])
        with contextlib.suppress(FileNotFoundError):
            target.rmdir()
        unpacked.rename(target)


def _verify(folder: Path, name: str, digest: str) -> None:
    """Checks that unpacked code has the hash in the archive's name.

    Args:
        folder: The folder of unpacked code.
        name: The archive's name; used in error messages.
        digest: The hash in the archive's name.

    Raises:
        BadCodeError: The hash differs, or the folder contains a file that `hash_code` ignores.
    """
    paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if extra := next((path for path in paths if is_left_out(path)), None):
        raise BadCodeError(
            f"{name} in the store contains {extra!r}, which the hash of code does not cover"
        )
    if (found := hash_code(folder)) != digest:
        raise BadCodeError(
            f"{name} in the store has been changed: its content has the hash {found}. Delete it "
            "from the store; the next study uploads it again"
        )


def find_module(folder: Path, module: str) -> Path | None:
    """Returns the folder from which a module can be imported, or None if there is no such folder.

    The module is searched for in `folder` and, if `folder` has exactly one subfolder (as in a
    source archive of setuptools), in that subfolder.
    """
    inner = [path for path in folder.iterdir() if path.is_dir()]
    path = Path(*module.split("."))
    for root in [folder, *inner[: len(inner) == 1]]:
        if (root / path).with_suffix(".py").is_file() or (root / path / "__init__.py").is_file():
            return root
    return None


def keep_code(store: Store, folder: Path, here: Path) -> str:
    """Uploads a folder of code to the store and copies it to a local cache.

    Args:
        store: The object store.
        folder: The folder of code.
        here: The cache: a folder of this machine with one subfolder for each code hash.

    Returns:
        The archive's name in the store, with which `local_code` finds the copy in the cache.
    """
    name = upload_code(store, folder)
    _place(here / hash_code(folder), lambda target: copy_code(folder, target))
    return name


def archive_name(digest: str) -> str:
    """Returns the name, in the object store, of the code archive with the given hash."""
    return f"code/{digest}.tar.gz"


def is_packed(code: str) -> bool:
    """Returns whether a study's ``code`` is the URL of an archive in a store, and not a folder."""
    return "://" in code


def split_address(address: str) -> tuple[str, str]:
    """Splits the URL of a code archive into the store's URL and the archive's name.

    For example, ``s3://models/code/<hash>.tar.gz`` becomes ``s3://models`` and
    ``code/<hash>.tar.gz``.

    Raises:
        BadCodeError: The text is not the URL of a code archive.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise BadCodeError(
            f"code is {address!r}, but must be a folder, or s3://<store>/code/<hash>.tar.gz"
        )
    return found["store"], found["name"]


def local_code(store: Store, name: str, here: Path) -> Path:
    """Returns the folder of an archive's code in the local cache; downloads it if necessary.

    Args:
        store: The object store.
        name: The archive's name in the store.
        here: The cache: a folder of this machine with one subfolder for each code hash.

    Raises:
        BadCodeError: The archive's content does not have the hash in its name.
    """
    digest = name.removeprefix("code/").removesuffix(".tar.gz")
    return _place(here / digest, partial(fetch_code, store, name))


def _place(target: Path, fill: Callable[[Path], None]) -> Path:
    """Creates a folder atomically, unless it exists, and returns its path.

    The files are written to a temporary folder, which is then renamed to the target, so that no
    reader sees an incomplete folder.

    Args:
        target: The folder to create.
        fill: Writes the files into the folder that it is called with.
    """
    if target.is_dir():
        return target
    aside = target.with_name(f"{target.name}.{uuid4().hex[:8]}")
    aside.mkdir(parents=True)
    try:
        fill(aside)
        with contextlib.suppress(OSError):  # another process has made the target meanwhile
            aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target
