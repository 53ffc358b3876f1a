"""Writes checkpoint folders that are named by epoch, and finds the newest complete folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpo_ops.protocol import MARKER


@contextmanager
def save_epoch(checkpoint_path: str | Path, epoch: int) -> Iterator[Path]:
    """Yields a temporary folder for an epoch's checkpoint, as a context manager.

    When the block ends without an exception, the marker file ``COMPLETE`` is created in the
    folder, and the folder is renamed to ``checkpoint_path/<epoch>``. Code that writes this folder
    without this function must write the files first and the empty file ``COMPLETE`` last.
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
    """Returns the highest epoch's complete folder in `checkpoint_path`; None if none exists."""
    path = Path(checkpoint_path)
    complete = [
        folder
        for folder in (path.iterdir() if path.is_dir() else ())
        if folder.name.isdecimal() and (folder / MARKER).is_file()
    ]
    return max(complete, key=lambda folder: int(folder.name), default=None)
