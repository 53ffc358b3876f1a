"""Opens files safely in a directory that untrusted code can change at any moment.

A training may replace any file of the directory that it shares with the agent by a symbolic link,
a named pipe or a device, even between a check of the file and its use. Therefore each path is
first opened, folder by folder and without following links, and then the open file is checked. No
function blocks on a pipe, and no file outside of the directory is read or written.
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
"""Maximum depth of nested folders that `Folder.files` searches."""
_NEVER_FOLLOW = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK_ERRORS = (errno.ELOOP, errno.ENXIO)
"""Error numbers when a link, a socket, or a pipe without a reader is opened."""


class UnsafeFileError(ValueError):
    """A path is a link, a pipe or a device, but must be a regular file or a folder."""


def open_regular(path: str | Path, *, folder: int | None = None) -> BinaryIO:
    """Opens a regular file for reading; refuses a link as the last part of the path.

    Args:
        path: Path of the file.
        folder: Descriptor of the folder to which the path is relative; None for the current
            folder.

    Raises:
        UnsafeFileError: The path is a link, or not a regular file.
        OSError: The file cannot be opened.
    """
    return os.fdopen(_open_regular(path, os.O_RDONLY, folder), "rb")


def open_log(path: Path) -> TextIO:
    """Opens a regular file for appending text; creates the file if it does not exist.

    Raises:
        UnsafeFileError: The path is a link, or not a regular file.
        OSError: The file cannot be opened.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    return os.fdopen(_open_regular(path, flags), "a", encoding="utf-8", errors="replace")


def read_regular(path: Path, *, at_most: int) -> bytes:
    """Reads the content of a regular file; refuses a link as the last part of the path.

    Args:
        path: Path of the file.
        at_most: Maximum size of the file in bytes.

    Raises:
        UnsafeFileError: The path is a link or not a regular file, or the file is too large.
        OSError: The file cannot be read.
    """
    with open_regular(path) as stream:
        content = stream.read(at_most + 1)
    if len(content) > at_most:
        raise UnsafeFileError(f"{path.name} has more than {at_most} bytes")
    return content


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file atomically, so that a reader never sees a partly written file.

    A link at the path is replaced by the file.

    Raises:
        OSError: The file cannot be written.
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
    """An open folder whose files and subfolders are opened relative to its descriptor.

    Attributes:
        path: The path by which the folder was opened.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self.path = path

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Opens a folder; refuses a link as the last part of the path.

        Raises:
            UnsafeFileError: The path is a link, or not a folder.
            OSError: The folder cannot be opened.
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
        """Opens a direct subfolder of this folder; raises the same errors as `Folder.open`."""
        return Folder(_open_folder(name, self._descriptor), self.path / name)

    def file(self, path: str) -> BinaryIO:
        """Opens a regular file in this folder or in a subfolder.

        A link is followed only if its target is in this folder or in a subfolder.

        Raises:
            UnsafeFileError: The path is not a regular file, or is a link whose target is outside
                of this folder.
            OSError: The file cannot be opened.
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
        """Yields the relative paths of all files and links in this folder and its subfolders.

        Args:
            skip: Names of folders that are not searched.
            depth: Depth of this folder below the folder at which the search started, to limit
                the depth of nested folders.

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
        """Returns the names of all entries of this folder."""
        return os.listdir(self._descriptor)  # noqa: PTH208, of a descriptor

    def has_file(self, path: str) -> bool:
        """Returns whether a path relative to this folder is a regular file, without opening it."""
        try:
            status = os.stat(path, dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode)

    def remove_folder(self, name: str) -> None:
        """Deletes a subfolder with its contents; ignores files that cannot be deleted."""
        shutil.rmtree(name, ignore_errors=True, dir_fd=self._descriptor)

    def _file(self, path: str) -> BinaryIO:
        *folders, name = path.split("/")
        with ExitStack() as stack:
            here = self
            for folder in folders:
                here = stack.enter_context(here.folder(folder))
            return open_regular(name, folder=here._descriptor)

    def _target_inside(self, path: str) -> str:
        """Returns the path of a link's target, relative to this folder.

        Raises:
            UnsafeFileError: The target is outside of this folder.
        """
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
