"""The manifest of a checkpoint: a JSON file that lists the checkpoint's files.

The manifest has each file's path, size and hash. It is uploaded after all other files.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

MANIFEST = "manifest.json"
VERSION = 1


@dataclass(frozen=True)
class ManifestFile:
    """One file of a checkpoint: its path in the checkpoint's folder, its size and its hash."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The step of one checkpoint, and the list of its files, sorted by path."""

    step: int
    files: tuple[ManifestFile, ...]

    @property
    def total_bytes(self) -> int:
        """The total size of all files of the checkpoint."""
        return sum(file.bytes for file in self.files)

    def to_json(self) -> bytes:
        files = [asdict(file) for file in self.files]
        return json.dumps({"version": VERSION, "step": self.step, "files": files}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """Parses and checks a manifest.

        Raises:
            ValueError: The text is not a manifest, or contains a path outside the checkpoint's
                folder.
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
    raise ValueError(f"{name} is not allowed as a number")


def digest_of(manifest: bytes) -> str:
    """Returns the SHA-256 hash of the bytes of a manifest.

    The manifest contains the hashes of all files, so its digest identifies the whole checkpoint.
    """
    return hashlib.sha256(manifest).hexdigest()


def check_path(path: str) -> None:
    """Checks that a relative path stays inside its folder.

    Raises:
        ValueError: The path is absolute or empty, or contains an empty part, ``.``, ``..``, a
            backslash or NUL.
    """
    parts = path.split("/")
    if not path or PurePosixPath(path).is_absolute() or not {"", ".", ".."}.isdisjoint(parts):
        raise ValueError(f"path is {path!r}, but must stay inside its folder")
    if any(character in path for character in "\\\0"):
        raise ValueError(f"path is {path!r}, but must not have backslashes or NUL in it")
