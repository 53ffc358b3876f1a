"""Copies a folder of code, so that another operating-system user can read the copy."""

from __future__ import annotations

import os
import stat
from pathlib import Path

LEFT_OUT = frozenset({".git", ".hpo", ".venv", "venv", "__pycache__", "node_modules"})
"""Names of folders that are not copied."""
MAX_BYTES = 1 << 30
MAX_FILES = 20_000


def copy_code(source: Path, target: Path) -> None:
    """Copies those files of a code folder that all users of the machine may read.

    A symbolic link is copied as a link, so that the permissions of the process that follows the
    link decide which files the process can read. Files and folders that other users may not read
    are skipped, except that a Python file which other users may not read is an error. The
    permissions of the folder itself are ignored, since the study declares the folder as its code.

    Raises:
        OSError: The folder cannot be read, has too many files or bytes, or contains a Python file
            that other users may not read.
    """
    left = [MAX_FILES, MAX_BYTES]
    descriptor = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _copy_folder(descriptor, target, source, left)
    finally:
        os.close(descriptor)


def _copy_folder(descriptor: int, target: Path, shown: Path, left: list[int]) -> None:
    target.mkdir(mode=0o755)
    target.chmod(0o755)
    for name in sorted(os.listdir(descriptor)):
        left[0] -= 1
        if left[0] < 0 or left[1] < 0:
            raise OSError(f"it has more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB")
        mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            (target / name).symlink_to(os.readlink(name, dir_fd=descriptor))
        elif stat.S_ISDIR(mode) and name not in LEFT_OUT and mode & 0o005 == 0o005:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            try:
                _copy_folder(inner, target / name, shown / name, left)
            finally:
                os.close(inner)
        elif stat.S_ISREG(mode) and mode & 0o004:
            left[1] -= _copy_file(descriptor, name, target / name)
        elif stat.S_ISREG(mode) and name.endswith(".py"):
            raise PermissionError(
                f"{shown / name} is readable by its owner only, but has to run as another user: "
                "make it readable (chmod o+r)"
            )


def _copy_file(folder: int, name: str, target: Path) -> int:
    """Copies a regular file and returns its size, or 0 if other users may not read the file.

    Raises:
        OSError: The path has been replaced by a symbolic link, or the file is too large.
    """
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as source:
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o004:
            return 0
        with target.open("xb") as made:
            size = os.fstat(source.fileno()).st_size
            if size > MAX_BYTES:
                raise OSError(f"{name} has {size >> 20} MiB, at most {MAX_BYTES >> 20} are copied")
            while part := source.read(1 << 20):
                made.write(part)
    target.chmod(0o755 if status.st_mode & 0o001 else 0o644)
    return size
