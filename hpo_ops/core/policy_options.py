"""Instantiates policies from their names, after validating their options."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from hpo_ops.isolation.allowlist import load_allowed, registered


def check_at_least(name: str, value: float, least: float) -> None:
    """Raises a ValueError that names an option if its value is below ``least`` or NaN."""
    if not value >= least:
        raise ValueError(f"{name} is {value}, but must be {least} or more")


def check_between(name: str, value: float, low: float, high: float) -> None:
    """Raises a ValueError that names an option if its value is not from ``low`` to ``high``."""
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}, but must be from {low} to {high}")


def create_policy(
    port: str,
    known: Mapping[str, type[Any]],
    name: str,
    options: Mapping[str, object],
    *,
    methods: Sequence[str] = (),
    group: str = "",
) -> Any:
    """Instantiates a policy from its name and options.

    A class that has no short name is imported only if it is on the operator's allowlist. A class
    that lacks a required method is refused before it is instantiated.

    Args:
        port: Key of the policy in the study file, such as ``scheduler``, for error messages.
        known: The classes that have a short name, by that name.
        name: A short name, or ``their.module:Class``.
        options: The policy's own options.
        methods: Names of the methods that the class must have.
        group: Group of entry points under which installed packages register policies.

    Raises:
        ValueError: The name or an option is not allowed. The message states what is allowed.
    """
    kind = find_policy(port, known, name, methods=methods, group=group)
    try:
        values = _check_options(port, kind, options) if is_dataclass(kind) else dict(options)
        return kind(**values)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(f"{port}.") else f"{port}.{text}") from error
    except TypeError as error:
        raise ValueError(f"{port}: {name} does not take these options ({error})") from error


def find_policy(
    port: str,
    known: Mapping[str, type[Any]],
    name: str,
    *,
    methods: Sequence[str] = (),
    group: str = "",
) -> type[Any]:
    """Returns the class of a policy by its name; see `create_policy` for the arguments.

    Raises:
        ValueError: The class does not exist, is not allowed, or lacks a required method.
    """
    if name in known:
        return known[name]
    target = name if ":" in name else registered(group).get(name)
    if target is None:
        raise ValueError(
            f"{port}.name is {name!r}, but must be one of "
            f"{', '.join(sorted({*known, *registered(group)}))}, or their.module:Class"
        )
    try:
        found = load_allowed(target, group=group)
    except ValueError as error:
        raise ValueError(f"{port}.name is {name!r}, but {error}") from error
    if not isinstance(found, type):
        raise ValueError(f"{port}.name is {name!r}, but that is not a class")
    for method in methods:
        if not callable(getattr(found, method, None)):
            raise ValueError(f"{port}.name is {name!r}, but that class has no method {method}")
    return found


def _check_options(port: str, kind: type[Any], options: Mapping[str, object]) -> dict[str, object]:
    allowed = {item.name: item for item in fields(kind) if item.init}
    for option in options:
        if option not in allowed:
            names = ", ".join(sorted(allowed)) or "none"
            raise ValueError(f"{port}.{option} is not an option; allowed: {names}")
    hints = get_type_hints(kind)
    for item in allowed.values():
        if item.name not in options and _is_required(item):
            raise ValueError(f"{port}.{item.name} is missing, but must be given")
    return {
        option: _convert(f"{port}.{option}", value, hints[option])
        for option, value in options.items()
    }


def _is_required(item: Field[Any]) -> bool:
    return item.default is MISSING and item.default_factory is MISSING


def _convert(where: str, value: object, hint: Any) -> object:
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for choice in choices:
        fits, converted = _fit(where, value, choice)
        if fits:
            return converted
    raise ValueError(f"{where} is {value!r}, but must be {_describe(choices)}")


def _fit(where: str, value: object, choice: Any) -> tuple[bool, object]:
    if choice is type(None):
        return value is None, None
    if isinstance(choice, type) and issubclass(choice, Enum):
        known = {member.value: member for member in choice}
        return isinstance(value, str) and value in known, known.get(str(value))
    if get_origin(choice) is tuple and isinstance(value, (list, tuple)):
        inner = get_args(choice)[0]
        return True, tuple(_convert(f"{where}[{i}]", item, inner) for i, item in enumerate(value))
    if get_origin(choice) is Mapping:
        return isinstance(value, Mapping), value
    return _fit_scalar(value, choice)


def _fit_scalar(value: object, choice: Any) -> tuple[bool, object]:
    if isinstance(value, bool):
        return choice is bool, value
    if choice is int:
        return isinstance(value, int), value
    if choice is float and isinstance(value, (int, float)):
        return not math.isnan(value), float(value)
    return isinstance(choice, type) and isinstance(value, choice), value


def _describe(choices: Iterable[Any]) -> str:
    names: list[str] = []
    for choice in choices:
        if isinstance(choice, type) and issubclass(choice, Enum):
            names.append("one of " + ", ".join(str(member.value) for member in choice))
        else:
            words: dict[Any, str] = {
                int: "an integer",
                float: "a number",
                bool: "true or false",
                str: "text",
                type(None): "null",
            }
            names.append(
                words.get(choice, "a mapping" if get_origin(choice) is Mapping else "a list")
            )
    return " or ".join(names)
