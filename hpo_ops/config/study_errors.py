"""Error messages of a study file: each names the key, the value found and the rule."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails


class StudyError(ValueError):
    """A study file, the conf of a DAG run or a job is invalid; the message lists every problem.

    Attributes:
        source: Origin of the study: a path, or a description.
        problems: One sentence for each problem.
    """

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = list(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))


class SeveralError(ValueError):
    """A value has several problems.

    Attributes:
        problems: One phrase for each problem, which continues a sentence that starts with the key.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(self.problems))


def explain(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Converts a validation error of pydantic to a list with one sentence for each problem."""
    return [
        sentence
        for detail in error.errors(include_url=False)
        for sentence in _sentences(detail, model)
    ]


_short = reprlib.Repr()
_short.maxlevel = 3
_short.maxstring = _short.maxother = 60


def shown(value: object) -> str:
    """Formats a value for an error message, shortened to 60 characters."""
    try:
        text = _short.repr(value)
    except ValueError:  # Python does not write integers of thousands of digits
        return "a value of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


_RULES = {
    "missing": "{key} is missing, but is required",
    "greater_than_equal": "{key} is {found}, but must be {ge} or more",
    "greater_than": "{key} is {found}, but must be above {gt}",
    "less_than_equal": "{key} is {found}, but must be {le} or less",
    "less_than": "{key} is {found}, but must be below {lt}",
    "literal_error": "{key} is {found}, but must be {expected}",
    "enum": "{key} is {found}, but must be {expected}",
    "string_type": "{key} is {found}, but must be text",
    "string_pattern_mismatch": "{key} is {found}, but must match {pattern}",
    "string_too_short": "{key} is empty, but must not be",
    "finite_number": "{key} is {found}, but must be a finite number",
    "model_type": "{key} is {found}, but must be a mapping",
}
_KINDS = {"int": "an integer", "float": "a number", "bool": "true or false"}


def _sentences(detail: ErrorDetails, model: type[BaseModel]) -> list[str]:
    cause = detail.get("ctx", {}).get("error")
    key = ".".join(str(part) for part in detail["loc"])
    if isinstance(cause, SeveralError):
        return [_after(key, problem) for problem in cause.problems]
    if detail["type"] == "value_error":
        return [_after(key, str(cause))]
    return [_sentence(key, detail, model)]


def _after(key: str, problem: str) -> str:
    """Joins a key and the description of its problem to a sentence.

    A description that starts with a dot continues the key, such as ``.lr is 0``; any other
    description is separated from the key by a space.
    """
    return f"{key}{'' if problem.startswith('.') or not key else ' '}{problem}"


def _sentence(key: str, detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind = detail["type"]
    context: dict[str, Any] = detail.get("ctx", {})
    found = shown(detail["input"])
    if kind == "extra_forbidden":
        noun = getattr(model, "noun", "study")
        return f"{key} is not a key that a {noun} has{_near(detail['loc'], model)}"
    if rule := _RULES.get(kind):
        return rule.format(key=key, found=found, **context)
    if wanted := _KINDS.get(kind.split("_")[0]):
        return f"{key} is {found}, but must be {wanted}"
    return f"{key} is {found}: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def _near(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """Returns a hint for an unknown key: the most similar allowed key, and all allowed keys.

    The hint is empty if the key's section cannot be determined.
    """
    current: Any = model
    for part in location[:-1]:
        if isinstance(part, int):
            continue  # an item of a list has the list's model
        field = current.model_fields.get(part) if hasattr(current, "model_fields") else None
        current = _model_in(field.annotation) if field else None
    if not hasattr(current, "model_fields"):
        return ""
    allowed = sorted(field.alias or name for name, field in current.model_fields.items())
    close = get_close_matches(str(location[-1]), allowed, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{hint} (keys: {', '.join(allowed)})"


def _model_in(annotation: Any) -> Any:
    """Returns the pydantic model in an annotation such as ``Model | None``; None if not found."""
    if hasattr(annotation, "model_fields"):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
