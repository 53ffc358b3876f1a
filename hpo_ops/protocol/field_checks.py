"""Checks of message fields that several messages share: steps, numbers, digests and text."""

from __future__ import annotations

import re

from hpo_ops.protocol._message import ProtocolError

MAX_STEP = 2**31 - 1
MAX_REASON = 4000
"""Number of characters to which a reason or note is shortened."""
_DIGEST = re.compile("[0-9a-f]{64}")


def is_step(value: object) -> bool:
    """Returns whether a value is an integer from 0 to `MAX_STEP`."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_STEP


def check_step(value: object) -> None:
    """Checks that a value is a valid step.

    Raises:
        ProtocolError: The value is not an integer from 0 to `MAX_STEP`.
    """
    if not is_step(value):
        raise ProtocolError(f"step is {value!r}, but must be an integer, 0 or more")


def is_number(value: object) -> bool:
    """Returns whether a value is a number that fits a float; NaN and infinity are accepted."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, float) or abs(value) < 1 << 1023


def check_digest(value: object) -> None:
    """Checks that a value is a SHA-256 digest in hexadecimal, or None.

    Raises:
        ProtocolError: The value is neither a digest nor None.
    """
    if value is None or (isinstance(value, str) and _DIGEST.fullmatch(value)):
        return
    raise ProtocolError(f"digest is {value!r:.100}, but must be 64 hexadecimal digits")


def storable_text(text: str) -> str:
    """Returns a text in the form that a database can store.

    Long texts are shortened, and NULs and lone surrogates are replaced.

    Raises:
        ProtocolError: The value is not text.
    """
    if not isinstance(text, str):
        raise ProtocolError(f"text was expected, but {text!r:.100} was found")
    encodable = text[:MAX_REASON].encode("utf-8", "replace").decode()
    return encodable.replace("\x00", "\ufffd")
