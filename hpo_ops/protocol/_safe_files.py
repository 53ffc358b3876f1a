"""Opens files of a directory that untrusted code can change at any moment.

A training may swap any file of the directory it shares with the agent for a symbolic link, a named
pipe or a device, also between the agent's check and its use. So a path is never checked and then
opened: it is opened without following links, folder by folder, and the open file is checked.
Nothing here blocks on a pipe, and nothing outside of the directory is read or written.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, TextIO

MAX_DEPTH = 64
"""Levels of nested folders that are searched."""
_NEVER_FOLLOW = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK_ERRORS = (errno.ELOOP, errno.ENXIO)
"""Errors of opening a link, a socket, or a pipe without a reader."""


class UnsafeFileError(ValueError):
    """A path is a link, a pipe or a device where a regular file or a folder must be."""


def open_regular(path: str | Path, *, folder: int | None = None) -> BinaryIO:
    """Opens a regular file for reading; a link as the last part of the path is refused.

    Args:
        path: The file.
        folder: Descriptor of the folder that the path is relative to.

    Raises:
        UnsafeFileError: It is a link, or not a regular file.
        OSError: It cannot be opened.
    """
    return os.fdopen(_open_regular(path, os.O_RDONLY, folder), "rb")


def open_log(path: Path) -> TextIO:
    """Opens a regular file to append text to; creates it if there is none.

    Raises:
        UnsafeFileError: It is a link, or not a regular file.
        OSError: It cannot be opened.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    return os.fdopen(_open_regular(path, flags), "a", encoding="utf-8", errors="replace")


def read_regular(path: Path, *, at_most: int) -> bytes:
    """The content of a regular file, as `open_regular` opens it.

    Raises:
        UnsafeFileError: It is a link, not a regular file, or has more bytes than allowed.
        OSError: It cannot be read.
    """
    with open_regular(path) as stream:
        content = stream.read(at_most + 1)
    if len(content) > at_most:
        raise UnsafeFileError(f"{path.name} has more than {at_most} bytes")
    return content


def write_atomically(path: Path, text: str) -> None:
    """Writes a file atomically: a reader never sees half of it. A link in its place is replaced.

    Raises:
        OSError: It cannot be written.
    """
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NEVER_FOLLOW
    with os.fdopen(os.open(aside, flags, 0o666), "w", encoding="utf-8") as stream:
        stream.write(text)
    try:
        aside.replace(path)
    except OSError:
        with suppress(OSError):
            aside.unlink()
        raise


class Folder:
    """An open folder, whose contents are opened relative to it and never through a link.

    Attributes:
        path: The path by which it was opened.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self.path = path

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Opens a folder; a link as the last part of the path is refused.

        Raises:
            UnsafeFileError: It is a link, or not a folder.
            OSError: It cannot be opened.
        """
        return cls(_open_folder(path), path)

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the folder's descriptor."""
        os.close(self._descriptor)

    def folder(self, name: str) -> Folder:
        """Opens a folder in this one; see `open`."""
        return Folder(_open_folder(name, self._descriptor), self.path / name)

    def file(self, path: str) -> BinaryIO:
        """Opens a regular file in this folder, or in a folder below it.

        A link to a file that is itself in this folder stands for that file.

        Raises:
            UnsafeFileError: It is not a regular file, or a link that leads out of the folder.
            OSError: It cannot be opened.
        """
        try:
            return self._file(path)
        except UnsafeFileError:
            target = self._target_inside(path)
        try:
            return self._file(target)
        except (UnsafeFileError, FileNotFoundError) as error:
            raise UnsafeFileError(f"{path} is not a regular file") from error

    def files(self, *, skip: Collection[str] = (), depth: int = 0) -> Iterator[str]:
        """Relative paths of everything below this folder that is not a folder; links included.

        Args:
            skip: Names of folders that are left out.
            depth: How deep this folder is below the one that was searched first.

        Raises:
            UnsafeFileError: Folders are nested too deeply.
            OSError: A folder cannot be read.
        """
        if depth > MAX_DEPTH:
            raise UnsafeFileError(f"folders are nested more than {MAX_DEPTH} levels deep")
        with os.scandir(self._descriptor) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        for name, is_folder in sorted(entries):
            if not is_folder:
                yield name
                continue
            if name in skip:
                continue
            with self.folder(name) as inner:
                for path in inner.files(skip=skip, depth=depth + 1):
                    yield f"{name}/{path}"

    def names(self) -> list[str]:
        """Names of all entries of this folder."""
        return os.listdir(self._descriptor)  # noqa: PTH208, of a descriptor

    def has_file(self, path: str) -> bool:
        """Whether a path is a regular file, without opening it."""
        try:
            status = os.stat(path, dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode)

    def remove_folder(self, name: str) -> None:
        """Deletes a folder in this one with its contents; what cannot be deleted stays."""
        shutil.rmtree(name, ignore_errors=True, dir_fd=self._descriptor)

    def _file(self, path: str) -> BinaryIO:
        *folders, name = path.split("/")
        with ExitStack() as stack:
            here = self
            for folder in folders:
                here = stack.enter_context(here.folder(folder))
            return open_regular(name, folder=here._descriptor)

    def _target_inside(self, path: str) -> str:
        """The path in this folder that a link points to."""
        root = os.path.realpath(self.path)
        target = os.path.realpath(os.path.join(root, path))  # noqa: PTH118, as realpath has it
        if os.path.commonpath([root, target]) != root:
            raise UnsafeFileError(f"{path} is a link that leaves the folder")
        return os.path.relpath(target, root)


def _open_folder(path: str | Path, folder: int | None = None) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | _NEVER_FOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, *_LINK_ERRORS):
            name = Path(path).name
            raise UnsafeFileError(f"{name} is a link or a file, but must be a folder") from error
        raise


def _open_regular(path: str | Path, flags: int, folder: int | None = None) -> int:
    name = Path(path).name
    try:
        descriptor = os.open(path, flags | _NEVER_FOLLOW, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EISDIR, *_LINK_ERRORS):
            raise UnsafeFileError(f"{name} is not a regular file") from error
        raise
    try:
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    if not is_regular:
        os.close(descriptor)
        raise UnsafeFileError(f"{name} is not a regular file")
    return descriptor
