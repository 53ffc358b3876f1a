"""Code archives: looked through, bounded and verified before anything of them is used."""

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

from hpo_ops.checkpoints.code_upload import (
    MAX_BYTES,
    BadCodeError,
    copy_code,
    hash_code,
    is_left_out,
    upload_code,
)
from hpo_ops.checkpoints.file_transfer import TooLargeError, receive
from hpo_ops.checkpoints.manifest import check_path
from hpo_ops.checkpoints.object_stores import Store

MAX_PACKED = 64 << 20
"""Bytes of an archive as it is sent."""
MAX_UNPACKED = 256 << 20
"""Bytes of an archive without its compression, headers included, and of what is written."""
MAX_FILES = 10_000
"""Entries of an archive, and folders that its files are in."""
MAX_STORED_FILES = 200_000
"""The same of a code folder that the platform packed."""
MAX_PATH = 1024
"""Characters of a path in an archive."""
MAX_FOLDERS = 64
"""Folders inside of each other."""
MAX_HEADER = 64 << 10
"""Bytes of an entry's extended header, which is held in memory."""
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
    """Unpacks a tar.gz of anyone's in an empty folder.

    Raises:
        BadCodeError: It is no such archive, is too large, or has anything in it but files and
            folders with names that stay inside; names what was found.
    """
    _Unpacking(target, max_bytes=MAX_UNPACKED, max_files=MAX_FILES).run(packed)


class _Header(tarfile.TarInfo):
    """A header of an archive, refused as it is read where it asks for memory or for holes."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        item = super().frombuf(buf, encoding, errors)
        if item.type in _EXTENDED and item.size > MAX_HEADER:
            raise BadCodeError(f"the archive has a header of {item.size} bytes in it")
        if item.type == tarfile.GNUTYPE_SPARSE:
            raise BadCodeError(_sparse(item.name))
        return item


@dataclass
class _Unpacking:
    """One archive on its way into a folder: counts what is read and what is written.

    Attributes:
        target: The folder.
        max_bytes: Bytes of the archive without its compression, and bytes written.
        max_files: Entries, and folders that are made for them.
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
                raise BadCodeError(f"the archive is no tar file: {error}") from error

    def _decompress(self, packed: BinaryIO, plain: BinaryIO) -> None:
        """Without its compression an archive cannot be larger than it says."""
        size = 0
        try:
            with gzip.open(packed) as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    size += len(chunk)
                    if size > self.max_bytes:
                        raise self._too_large()
                    plain.write(chunk)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise BadCodeError(f"the archive is no tar.gz file: {error}") from error

    def _unpack(self, archive: tarfile.TarFile, item: tarfile.TarInfo) -> None:
        name = re.sub(r"^(\./)+", "", item.name).rstrip("/")
        if item.isdir() and name in ("", "."):
            return
        _check_entry(item, name)
        if item.isdir():
            return
        content = archive.extractfile(item)
        if content is None:
            raise BadCodeError(f"{item.name!r} in the archive is no regular file")
        path = self.target / name
        try:
            self._make_folder(path.parent)
            with path.open("xb") as stream:
                while chunk := content.read(CHUNK_BYTES):
                    self.written += len(chunk)
                    if self.written > self.max_bytes:
                        raise self._too_large()
                    stream.write(chunk)
        except OSError as error:  # a file in the place of a folder, a name twice, a name too long
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
    """Refuses an entry that is neither a plain file nor a folder, or has a name that will not do.

    Raises:
        BadCodeError: Says why.
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
        kind = "a link" if item.issym() or item.islnk() else "no regular file"
        raise BadCodeError(f"{item.name!r} in the archive is {kind}, but must be a file")


def _sparse(name: str) -> str:
    return f"{name!r} in the archive is a sparse file: pack it without tar's option --sparse"


def fetch_code(store: Store, name: str, target: Path) -> None:
    """Downloads packed code into a new or empty folder, once it is what its name says.

    Raises:
        BadCodeError: The archive is not what its name says, or has something else in it than
            files of the folder. Nothing of it is in the target folder then.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise BadCodeError(f"{name!r} is no name of packed code, such as code/<hash>.tar.gz")
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
    """Refuses unpacked code that is not what its archive's name says.

    Raises:
        BadCodeError: A file is another one, or is not counted by the hash.
    """
    paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if extra := next((path for path in paths if is_left_out(path)), None):
        raise BadCodeError(f"{name} in the store has {extra!r} in it, which is no part of code")
    if (found := hash_code(folder)) != digest:
        raise BadCodeError(
            f"{name} in the store is not what its name says: its content has the hash {found}; "
            "delete it there, and the next study uploads it again"
        )


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
    return _place(here / digest, partial(fetch_code, store, name))


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
