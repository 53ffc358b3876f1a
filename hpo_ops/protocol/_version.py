"""The version of the protocol between agents and the gateway, and the check of a peer's version.

Decision 23 in the project's documentation describes which versions are compatible.
"""

from __future__ import annotations

from hpo_ops.protocol._message import ProtocolError

VERSION = 1
"""Version of the protocol, which is independent of the version of the package."""
VERSION_HEADER = "HPO-Protocol"
"""Header of each request to the gateway with the sender's protocol version; 1 if missing."""


def check_version(version: int, *, own: int = VERSION) -> None:
    """Checks that a message has the receiver's protocol version or the version before it.

    Args:
        version: Protocol version of the message.
        own: Protocol version of the receiver.

    Raises:
        ProtocolError: The version is newer than `own`, or older than the version before `own`.
    """
    oldest = max(own - 1, 1)
    if not oldest <= version <= own:
        understood = f"{oldest} or {own}" if oldest < own else str(own)
        raise ProtocolError(f"protocol is {version}, but must be {understood}")
