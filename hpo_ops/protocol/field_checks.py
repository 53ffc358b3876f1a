"""Checks that several messages share: steps, numbers, digests and text that can be stored."""

from __future__ import annotations

import re

from hpo_ops.protocol._message import ProtocolError

MAX_STEP = 2**31 - 1
MAX_REASON = 4000
"""Characters of a reason or note that are kept."""
_DIGEST = re.compile("[0-9a-f]{64}")


def is_step(value: object) -> bool:
    """Whether a value is an integer that can be a step."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_STEP


def check_step(value: object) -> None:
    """Refuses a value that cannot be a step.

    Raises:
        ProtocolError: It is not an integer from 0 to `MAX_STEP`.
    """
    if not is_step(value):
        raise ProtocolError(f"step is {value!r}, but must be an integer, 0 or more")


def is_number(value: object) -> bool:
    """Whether a value is a number that fits a float; NaN and infinity are numbers, too."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, float) or abs(value) < 1 << 1023


def check_digest(value: object) -> None:
    """Refuses a value that is neither a SHA-256 in hexadecimal nor None.

    Raises:
        ProtocolError: It is something else.
    """
    if value is None or (isinstance(value, str) and _DIGEST.fullmatch(value)):
        return
    raise ProtocolError(f"digest is {value!r:.100}, but must be 64 hexadecimal digits")


def storable_text(text: str) -> str:
    """Text as a database can store it: shortened, without NUL and without lone surrogates.

    Raises:
        ProtocolError: It is not text.
    """
    if not isinstance(text, str):
        raise ProtocolError(f"text was expected, but {text!r:.100} was found")
    encodable = text[:MAX_REASON].encode("utf-8", "replace").decode()
    return encodable.replace("\x00", "\ufffd")
