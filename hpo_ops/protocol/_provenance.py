"""Provenance: the code, packages and hardware that a segment was trained with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hpo_ops.protocol._message import Message


@dataclass(frozen=True, kw_only=True)
class Provenance(Message):
    """The code, packages and hardware that a segment was trained with; each may be unknown.

    A segment is one uninterrupted execution of a trial.

    Attributes:
        code_hash: Hash of the code folder; None if unknown, or if the code is in the image.
        commit: Git commit of the code folder.
        is_dirty: Whether the code folder differed from the commit; None if unknown.
        image: Name of the container image; None for a local process.
        image_digest: Digest to which the image's name was resolved.
        python: Version of the Python interpreter.
        packages: Versions of the packages that were imported, by name.
        devices: Names of the GPUs that were used.
        resources: Resources that were reserved for the segment, such as CPU cores and GPUs.
    """

    code_hash: str | None = None
    commit: str | None = None
    is_dirty: bool | None = None
    image: str | None = None
    image_digest: str | None = None
    python: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    devices: list[str] = field(default_factory=list)
    resources: dict[str, Any] = field(default_factory=dict)

    def known(self) -> dict[str, Any]:
        """Returns the fields that are neither None nor empty, by name, as JSON data."""
        return {
            name: value for name, value in self.to_dict().items() if value not in (None, {}, [])
        }

    def over(self, other: Provenance) -> Provenance:
        """Returns a copy of this provenance, with unknown fields filled in from `other`."""
        return Provenance.from_dict({**other.known(), **self.known()})
