"""Checkpoint folders named by epoch: how they are written, and how the newest is found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpo_ops.protocol import MARKER


@contextmanager
def save_epoch(checkpoint_path: str | Path, epoch: int) -> Iterator[Path]:
    """A folder to write the checkpoint of an epoch into; used as a context manager.

    When the block ends without an exception, the folder gets its marker and is moved to its place
    in one step. Code that writes ``checkpoint_path/<epoch>/`` without this function must write the
    files first and the empty file ``COMPLETE`` last.
    """
    folder = Path(checkpoint_path) / str(epoch)
    aside = folder.with_name(f".{epoch}.{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        yield aside
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    (aside / MARKER).touch()
    shutil.rmtree(folder, ignore_errors=True)
    aside.rename(folder)


def newest_epoch(checkpoint_path: str | Path) -> Path | None:
    """The folder of the newest complete checkpoint, in numeric order (10 after 9), or None."""
    path = Path(checkpoint_path)
    complete = [
        folder
        for folder in (path.iterdir() if path.is_dir() else ())
        if folder.name.isdecimal() and (folder / MARKER).is_file()
    ]
    return max(complete, key=lambda folder: int(folder.name), default=None)
