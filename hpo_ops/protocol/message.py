"""A shape on the wire: a dataclass that goes to JSON and back."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Self


class ProtocolError(ValueError):
    """A file or message does not have the shape that this version of the protocol asks for."""


@dataclass(frozen=True)
class Message:
    """A shape on the wire: goes to JSON and back, ignoring fields that it does not know."""

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), separators=(",", ":"))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"{cls.__name__}: not JSON ({error})") from error
        return cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        if not isinstance(data, dict):
            raise ProtocolError(f"{cls.__name__}: is {type(data).__name__}, but must be an object")
        known = {item.name for item in fields(cls)}
        for item in fields(cls):
            if item.name not in data and item.default is item.default_factory is MISSING:
                raise ProtocolError(f"{cls.__name__}: {item.name} is missing")
        try:
            return cls(**{key: value for key, value in data.items() if key in known})
        except (TypeError, ValueError) as error:
            raise ProtocolError(f"{cls.__name__}: {error}") from error
