"""Messages about checkpoints that an agent has saved or may restore."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.protocol._message import Message, ProtocolError
from hpo_ops.protocol.field_checks import check_digest, check_step


@dataclass(frozen=True, kw_only=True)
class SavedCheckpoint(Message):
    """A checkpoint that is recorded in the ledger and that an agent may restore.

    Attributes:
        step: The step after which the checkpoint was saved.
        path: Folder of the checkpoint in the study's store.
        digest: SHA-256 digest of the checkpoint's manifest, in hexadecimal; None if the agent that
            saved the checkpoint did not send a digest.
    """

    step: int
    path: str
    digest: str | None = None

    def __post_init__(self) -> None:
        check_step(self.step)
        check_digest(self.digest)


@dataclass(frozen=True, kw_only=True)
class Checkpoint(Message):
    """An agent's announcement that all files and the manifest of a checkpoint are in the store.

    Attributes:
        step: The step after which the checkpoint was saved.
        uri: Location of the checkpoint. The gateway ignores it and derives the location itself.
        files: Number of files.
        bytes: Total size of the files in bytes.
        digest: SHA-256 digest of the checkpoint's manifest, in hexadecimal; None if the agent does
            not compute digests.
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
