"""Calls functions that users have written, such as ``stop.when`` and finalizers, in a sandbox."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpo_ops.isolation.allowlist import is_allowed, load_allowed
from hpo_ops.isolation.sandbox import Sandbox, SandboxEndedError

logger = logging.getLogger(__name__)

CHILD = Path(__file__).with_name("function_child.py")
CALL_SECONDS = 300.0
"""The default time limit of one call."""


class UserCodeError(ValueError):
    """A user's function cannot be loaded, raised an error, took too long, or ended its process."""


def call_function(
    key: str,
    target: str,
    argument: object,
    *,
    code: Path | None,
    seconds: float = CALL_SECONDS,
) -> str | bool:
    """Calls a user's ``module:function`` with one argument.

    The function runs in a sandbox, where the study's code folder comes first in the import path.
    Only a function that the operator has allowed (``HPO_ALLOWED_CLASSES``) runs in the calling
    process instead, without a time limit; its exceptions are passed to the caller unchanged.

    Args:
        key: The key of the study file that names the function; used in error messages.
        target: The function, as ``module:function``.
        argument: The function's argument; it must be serializable as JSON.
        code: The study's code folder; None if the study has no code folder.
        seconds: The time limit of the call, in seconds.

    Returns:
        The function's result if the result is a string, else the truth value of the result.

    Raises:
        UserCodeError: The function cannot be loaded, raised an error, took too long, or ended its
            process.
    """
    if is_allowed(target):
        return _call_here(key, target, argument)
    with Sandbox(CHILD, code=code) as sandbox:
        folder = None if sandbox.code is None else str(sandbox.code)
        request = {"target": target, "folder": folder, "argument": argument}
        try:
            answer = sandbox.ask(request, seconds=seconds)
        except TimeoutError as error:
            raise UserCodeError(f"{key} {target} took more than {seconds:g} s") from error
        except SandboxEndedError as error:
            printed = f"\n{sandbox.output.strip()}"
            raise UserCodeError(f"{key} {target} ended without an answer{printed}") from error
        for line in sandbox.output.splitlines():
            logger.info("%s: %s", target, line)
        return _checked(key, target, answer, sandbox)


def _call_here(key: str, target: str, argument: object) -> str | bool:
    try:
        found: Callable[[Any], Any] = load_allowed(target)  # type: ignore[assignment]  # called next
    except ValueError as error:
        raise UserCodeError(f"{key} is {target!r}, but {error}") from error
    value = found(argument)
    return value if isinstance(value, str) else bool(value)


def _checked(key: str, target: str, answer: object, sandbox: Sandbox) -> str | bool:
    if isinstance(answer, dict):
        value = answer.get("value")
        if isinstance(value, (str, bool)):
            return value
        if isinstance(error := answer.get("error"), str):
            trace = sandbox.named(str(answer.get("trace", ""))).rstrip()
            what = "failed" if answer.get("is_loaded") else "cannot be loaded"
            raise UserCodeError(
                "\n".join(filter(None, [f"{key} {target} {what}: {error}", trace]))
            )
    raise UserCodeError(f"{key} {target} returned an invalid answer: {answer!r:.200}")
