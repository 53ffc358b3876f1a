"""A checkpoint as a local folder: which files may be uploaded."""

from __future__ import annotations

from pathlib import Path

from hpo_ops.checkpoints.manifest import MANIFEST, check_path
from hpo_ops.protocol import MARKER, Folder, UnsafeFileError


class BadCheckpointError(ValueError):
    """A local checkpoint folder cannot be uploaded, now or later."""


def open_checkpoint(path: Path) -> Folder:
    """Opens a checkpoint folder.

    Raises:
        BadCheckpointError: It is a link, or no folder.
    """
    try:
        return Folder.open(path)
    except (FileNotFoundError, UnsafeFileError) as error:
        raise BadCheckpointError(f"checkpoint {path.name}: there is no such folder") from error


def files_of(folder: Folder) -> list[str]:
    """Paths of the files in a checkpoint folder, relative to it and sorted.

    The files may be swapped afterwards: whoever reads them opens them with `Folder.file`.

    Raises:
        BadCheckpointError: The folder is empty, or has a file in it that must not be uploaded.
    """
    where = f"checkpoint {folder.path.name}"
    try:
        paths = sorted(path for path in folder.files() if path != MARKER)
        for path in paths:
            check_path(path)
            folder.file(path).close()
    except FileNotFoundError as error:
        raise BadCheckpointError(f"{where}: {error.filename} was there and is gone") from error
    except ValueError as error:
        raise BadCheckpointError(f"{where}: {error}") from error
    if not paths:
        raise BadCheckpointError(f"{where}: the folder is empty")
    if MANIFEST in paths:
        raise BadCheckpointError(f"{where}: {MANIFEST} is a reserved name")
    return paths
