"""Decodes JSON data to dataclasses, according to the type hints of their fields.

The decoder of a dataclass is created from the type hints when it is first needed. A field may be a
scalar, a union of scalars, an enum, another dataclass, ``Any``, or a list, tuple or dict of these
types; each may be optional. Numbers are not converted: an integer in a float field stays an
integer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

Decode = Callable[[Any], Any]
_WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "text"}


class WrongShapeError(ValueError):
    """The error that JSON data does not match the types of a message's fields.

    Attributes:
        path: Path of the invalid field, such as ``saved[2].step``; empty for the whole message.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path = ""

    def __str__(self) -> str:
        return f"{self.path} {self.args[0]}".strip()

    def within(self, part: str) -> WrongShapeError:
        """Prepends the name of the enclosing field or item to `path`, and returns this error."""
        self.path = part + (self.path if self.path[:1] in ("", "[") else f".{self.path}")
        return self


@cache
def decoder(kind: Any) -> Decode:
    """Returns a function that decodes JSON data to values of a type.

    The returned function raises `WrongShapeError` if the data does not match the type.

    Raises:
        TypeError: The type is not allowed for a field of a message.
    """
    if kind is Any:
        return _unchanged
    if accepted_classes(kind):
        return _scalar(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union(arguments)
    if origin is list:
        return _list(decoder(arguments[0]))
    if origin is tuple:
        return _tuple([decoder(argument) for argument in arguments])
    if origin is dict:
        return _dict(decoder(arguments[1]), taken=accepted_classes(arguments[1]))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    if is_dataclass(kind):
        return _record(kind)
    raise TypeError(f"{kind} cannot be the type of a message's field")


def _unchanged(value: Any) -> Any:
    return value


def _wrong(value: object, words: str) -> WrongShapeError:
    return WrongShapeError(f"is {value!r:.100}, but must be {words}")


def accepted_classes(kind: Any) -> frozenset[type]:
    """Returns the classes of the JSON values that a scalar type or union of scalar types accepts.

    The set is empty for other types, such as lists and dataclasses.
    """
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if not set(kinds) <= {*_WORDS, NoneType}:
        return frozenset()
    return frozenset({*kinds, *([int] if float in kinds else [])})


def _scalar(kind: Any) -> Decode:
    """Returns a function that checks that a value has a scalar type, or a type of a scalar union.

    Instances of subclasses, such as a StrEnum for text, are accepted as well.
    """
    accepted = tuple(accepted_classes(kind))
    kinds = get_args(kind) or (kind,)
    words = " or ".join("null" if each is NoneType else _WORDS[each] for each in kinds)

    def decode(value: Any) -> Any:
        is_refused = value.__class__ is bool and bool not in accepted
        if is_refused or not isinstance(value, accepted):
            raise _wrong(value, words)
        return value

    return decode


def _union(kinds: tuple[Any, ...]) -> Decode:
    if len(kinds) != 2 or NoneType not in kinds:
        raise TypeError(f"a message's field cannot be one of {kinds}")
    inner = decoder(next(kind for kind in kinds if kind is not NoneType))
    return lambda value: None if value is None else inner(value)


def _enum(kind: type[Enum]) -> Decode:
    words = "one of " + ", ".join(str(member.value) for member in kind)

    def decode(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise _wrong(value, words) from None

    return decode


def _list(inner: Decode) -> Decode:
    def decode(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _wrong(value, "a list")
        return list(_items(value, inner))

    return decode


def _tuple(inner: list[Decode]) -> Decode:
    def decode(value: Any) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(inner):
            raise _wrong(value, f"a list of {len(inner)}")
        return tuple(convert(item) for convert, item in zip(inner, value, strict=True))

    return decode


def _items(values: list[Any] | tuple[Any, ...], inner: Decode) -> list[Any]:
    try:
        return [inner(item) for item in values]
    except WrongShapeError:
        pass
    for number, item in enumerate(values):  # decodes again, to find the index of the invalid item
        try:
            inner(item)
        except WrongShapeError as error:
            raise error.within(f"[{number}]") from None
    raise WrongShapeError("cannot be read")


def _dict(inner: Decode, *, taken: frozenset[type]) -> Decode:
    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _wrong(value, "an object")
        found = {}
        for name, item in value.items():
            if not isinstance(name, str):
                raise _wrong(value, "an object with names of text")
            if item.__class__ in taken:
                found[name] = item
                continue
            try:
                found[name] = inner(item)
            except WrongShapeError as error:
                raise error.within(f"[{name!r:.100}]") from None
        return found

    return decode


def _record(kind: Any) -> Decode:
    hints = get_type_hints(kind)
    plan = []
    for item in fields(kind):
        hint = hints[item.name]
        is_required = item.default is item.default_factory is MISSING
        plan.append((item.name, accepted_classes(hint), decoder(hint), is_required))

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise WrongShapeError(f"is {type(value).__name__}, but must be an object")
        found = {}
        for name, taken, convert, is_required in plan:
            if name not in value:
                if is_required:
                    raise WrongShapeError(f"{name} is missing")
                continue
            item = value[name]
            if item.__class__ in taken:  # the common case: saves a function call
                found[name] = item
                continue
            try:
                found[name] = convert(item)
            except WrongShapeError as error:
                raise error.within(name) from None
        return kind(**found)

    return decode
