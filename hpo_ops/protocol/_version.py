"""The version of the protocol, and which versions understand each other (decision 23)."""

from __future__ import annotations

from hpo_ops.protocol._message import ProtocolError

VERSION = 1
"""Version of this protocol, not of the package."""
VERSION_HEADER = "HPO-Protocol"
"""Header of a request to the gateway: the version of its sender; 1 where it is missing."""


def check_version(version: int, *, own: int = VERSION) -> None:
    """Refuses messages of a protocol that this side does not understand.

    A side understands its own version and the one before it.

    Raises:
        ProtocolError: The version is newer, or older than the previous one.
    """
    oldest = max(own - 1, 1)
    if not oldest <= version <= own:
        understood = f"{oldest} or {own}" if oldest < own else str(own)
        raise ProtocolError(f"protocol is {version}, but must be {understood}")
