"""Container images made by hand: a file system as a layer, layers as an archive.

An archive may leave out a layer that the store has already; so an image that differs from
another in its last layer only is small and quickly imported.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_OCI = "application/vnd.oci.image"
_CREATED = "1970-01-01T00:00:00Z"


@dataclass(frozen=True)
class Layer:
    """One layer; its digest and its size are all that an image says of it."""

    digest: str
    size: int
    archive: Path | None = None

    @classmethod
    def of_archive(cls, archive: Path) -> Self:
        with archive.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return cls(digest=digest, size=archive.stat().st_size, archive=archive)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads what `write` has written: a layer that is in a store already."""
        content = json.loads(path.read_text(encoding="utf-8"))
        return cls(digest=content["digest"], size=content["size"])

    def write(self, path: Path) -> None:
        content = {"digest": self.digest, "size": self.size}
        path.write_text(json.dumps(content), encoding="utf-8")


def pack(
    folder: Path, archive: Path, *, at: str = ".", keep: Callable[[Path], bool] | None = None
) -> Layer:
    """Packs a folder as a layer; the same files give the same layer, whoever packs them when.

    Args:
        folder: What to pack.
        archive: The file to write.
        at: Where the folder is in the image.
        keep: Says which files to take, by default all.
    """

    def select(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        path = folder / Path(entry.name).relative_to(at)
        if keep is not None and not keep(path):
            return None
        entry.mtime = entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as packed:
        # Sorted by name at each level, as tarfile does it.
        packed.add(folder, arcname=at, filter=select)
    return Layer.of_archive(archive)


def write_image(
    archive: Path, *, name: str, layers: Sequence[Layer], config: Mapping[str, object]
) -> None:
    """Writes an image as an archive that `ctr images import` takes.

    Args:
        archive: The file to write.
        name: The image's name, with its tag.
        layers: From the bottom up; one without an archive must be in the store.
        config: The usual keys: Cmd, Entrypoint, Env, User, WorkingDir.
    """
    blobs: dict[str, bytes] = {}

    def describe(kind: str, content: object) -> dict[str, object]:
        data = json.dumps(content, sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {
            "mediaType": f"{_OCI}.{kind}+json",
            "digest": f"sha256:{digest}",
            "size": len(data),
        }

    described = describe(
        "config.v1",
        {
            "architecture": "amd64",
            "os": "linux",
            "created": _CREATED,
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{it.digest}" for it in layers]},
        },
    )
    manifest = describe(
        "manifest.v1",
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": described,
            "layers": [
                {
                    "mediaType": f"{_OCI}.layer.v1.tar",
                    "digest": f"sha256:{layer.digest}",
                    "size": layer.size,
                }
                for layer in layers
            ],
        },
    )
    manifest["annotations"] = {"io.containerd.image.name": name}
    with tarfile.open(archive, "w") as packed:
        _add(packed, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        for digest, data in blobs.items():
            _add(packed, f"blobs/sha256/{digest}", data)
        for layer in layers:
            if layer.archive is not None:
                packed.add(layer.archive, arcname=f"blobs/sha256/{layer.digest}")
        index = {"schemaVersion": 2, "manifests": [manifest]}
        _add(packed, "index.json", json.dumps(index).encode())


def _add(packed: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    packed.addfile(entry, io.BytesIO(data))
