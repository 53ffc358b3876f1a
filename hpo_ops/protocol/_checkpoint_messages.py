"""Checkpoints on the wire: those that an agent has saved, and those that it may restore."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.protocol._message import Message, ProtocolError
from hpo_ops.protocol.field_checks import check_digest, check_step


@dataclass(frozen=True, kw_only=True)
class SavedCheckpoint(Message):
    """A checkpoint that the ledger has on record, for an agent to restore.

    Attributes:
        step: The step after which it was saved.
        path: Its folder in the study's store.
        digest: SHA-256 of its manifest, in hexadecimal; None if its agent did not send one.
    """

    step: int
    path: str
    digest: str | None = None

    def __post_init__(self) -> None:
        check_step(self.step)
        check_digest(self.digest)


@dataclass(frozen=True, kw_only=True)
class Checkpoint(Message):
    """A complete checkpoint in the store, announced by its agent once its manifest is uploaded.

    Attributes:
        step: The step after which it was saved.
        uri: Its location. The gateway derives the location itself and ignores this one.
        files: Number of its files.
        bytes: Size of all files together.
        digest: SHA-256 of its manifest, in hexadecimal; None from agents that do not send it.
    """

    step: int
    uri: str
    files: int
    bytes: int
    digest: str | None = None

    def __post_init__(self) -> None:
        check_step(self.step)
        if self.files < 0 or self.bytes < 0:
            raise ProtocolError(
                f"files is {self.files} and bytes {self.bytes}, but both must be 0 or more"
            )
        check_digest(self.digest)
