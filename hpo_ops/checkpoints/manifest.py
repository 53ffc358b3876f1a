"""The manifest: what a checkpoint holds, uploaded last."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

MANIFEST = "manifest.json"
VERSION = 1


@dataclass(frozen=True)
class ManifestFile:
    """One file of a checkpoint: its path in the folder, size and hash."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The files of one checkpoint, sorted by path."""

    step: int
    files: tuple[ManifestFile, ...]

    @property
    def total_bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for file in self.files)

    def to_json(self) -> bytes:
        files = [asdict(file) for file in self.files]
        return json.dumps({"version": VERSION, "step": self.step, "files": files}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """Reads a manifest.

        Raises:
            ValueError: It is not one, or names a path that leaves the folder.
        """
        try:
            data = json.loads(text, parse_constant=_refuse_constant)
            version, step = data["version"], int(data["step"])
            files = tuple(
                ManifestFile(str(file["path"]), int(file["bytes"]), str(file["sha256"]))
                for file in data["files"]
            )
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise ValueError(f"{MANIFEST}: not a manifest ({error!r})") from error
        if version != VERSION:
            raise ValueError(f"{MANIFEST}: version is {version!r}, but must be {VERSION}")
        for file in files:
            check_path(file.path)
            if file.bytes < 0:
                raise ValueError(f"{MANIFEST}: {file.path} has {file.bytes} bytes")
        return cls(step, files)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of a manifest")


def digest_of(manifest: bytes) -> str:
    """The digest of a manifest as it is in the store: it stands for all files of a checkpoint."""
    return hashlib.sha256(manifest).hexdigest()


def check_path(path: str) -> None:
    """Refuses a path that is not plainly inside of the folder it is relative to.

    Raises:
        ValueError: The path is absolute, empty, or has ``.`` or ``..`` in it.
    """
    parts = path.split("/")
    if not path or PurePosixPath(path).is_absolute() or not {"", ".", ".."}.isdisjoint(parts):
        raise ValueError(f"path is {path!r}, but must stay inside of its folder")
    if any(character in path for character in "\\\0"):
        raise ValueError(f"path is {path!r}, but must not have backslashes or NUL in it")
