"""The base class of messages: dataclasses that are encoded to JSON and decoded from JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Self

from hpo_ops.protocol._decoding import decoder


class ProtocolError(ValueError):
    """A file or message does not conform to this version of the protocol."""


@dataclass(frozen=True)
class Message:
    """A message that is encoded to JSON and decoded from JSON; unknown fields are ignored.

    A subclass declares its fields with their types. Its ``__post_init__`` checks all other
    restrictions on the values, and raises `ProtocolError`.
    """

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), separators=(",", ":"))

    def to_dict(self) -> dict[str, Any]:
        kind: Any = type(self)
        return {name: _plain(getattr(self, name)) for name in _names(kind)}

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"{cls.__name__}: not JSON ({error})") from error
        return cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Decodes a message from JSON data (dicts, lists and scalars).

        Raises:
            ProtocolError: A field is missing or has a value that is not allowed; the error message
                names the field.
        """
        kind: Any = cls
        try:
            message: Self = decoder(kind)(data)
        except (TypeError, ValueError) as error:
            raise ProtocolError(f"{cls.__name__}: {error}") from error
        return message


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def _plain(value: Any) -> Any:
    """Converts the value of a message's field to JSON data (dicts, lists and scalars)."""
    if isinstance(value, Message):
        return value.to_dict()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
