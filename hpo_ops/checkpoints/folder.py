"""A checkpoint as a local folder: which files may be uploaded."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hpo_ops.checkpoints.manifest import MANIFEST, check_path
from hpo_ops.protocol import MARKER


class BadCheckpointError(ValueError):
    """A local checkpoint folder cannot be uploaded, now or later."""


def files_of(folder: Path) -> list[str]:
    """Paths of the files in a checkpoint folder, relative to it and sorted.

    Raises:
        BadCheckpointError: The folder is empty, or has a file in it that must not be uploaded.
    """
    paths = []
    root = folder.resolve()
    for place, folders, names in os.walk(root):
        for name in folders + names:
            path = Path(place, name)
            if path.is_symlink() or name in names:
                _check_file(root, path)
                paths.append(path.relative_to(root).as_posix())
    paths = sorted(path for path in paths if path != MARKER)
    if not paths:
        raise BadCheckpointError(f"checkpoint {folder.name}: the folder is empty")
    if MANIFEST in paths:
        raise BadCheckpointError(f"checkpoint {folder.name}: {MANIFEST} is a reserved name")
    return paths


def _check_file(root: Path, path: Path) -> None:
    where = f"checkpoint {root.name}: {path.relative_to(root)}"
    if not path.resolve().is_relative_to(root):
        raise BadCheckpointError(f"{where} is a link that leaves the folder")
    if not path.exists() or not stat.S_ISREG(path.stat().st_mode):
        raise BadCheckpointError(f"{where} is not a regular file")
    try:
        check_path(path.relative_to(root).as_posix())
    except ValueError as error:
        raise BadCheckpointError(f"{where}: {error}") from error
