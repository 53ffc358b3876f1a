"""Lists and checks the files of a local checkpoint folder before they are uploaded."""

from __future__ import annotations

from pathlib import Path

from hpo_ops.checkpoints.manifest import MANIFEST, check_path
from hpo_ops.protocol import MARKER, Folder, UnsafeFileError


class BadCheckpointError(ValueError):
    """A local checkpoint folder cannot be uploaded, and a retry would fail too."""


def open_checkpoint(path: Path) -> Folder:
    """Opens a checkpoint folder without following links.

    Raises:
        BadCheckpointError: The path is a link, or not a folder.
    """
    try:
        return Folder.open(path)
    except (FileNotFoundError, UnsafeFileError) as error:
        raise BadCheckpointError(f"checkpoint {path.name}: is not a folder") from error


def files_of(folder: Folder) -> list[str]:
    """Returns the relative paths of the files in a checkpoint folder, sorted.

    The marker file, which only marks the local folder as complete, is omitted. The training may
    replace files after this call, so callers must open each file with `Folder.file`, which follows
    no links.

    Raises:
        BadCheckpointError: The folder is empty, or contains a link, a special file, an unsafe path
            or a file with the manifest's name.
    """
    where = f"checkpoint {folder.path.name}"
    try:
        paths = sorted(path for path in folder.files() if path != MARKER)
        for path in paths:
            check_path(path)
            folder.file(path).close()
    except FileNotFoundError as error:
        raise BadCheckpointError(f"{where}: {error.filename} was deleted meanwhile") from error
    except ValueError as error:
        raise BadCheckpointError(f"{where}: {error}") from error
    if not paths:
        raise BadCheckpointError(f"{where}: the folder is empty")
    if MANIFEST in paths:
        raise BadCheckpointError(f"{where}: {MANIFEST} is a reserved name")
    return paths
