"""Runs a user's search algorithm in a sandbox, and answers calls of the parent as JSON lines.

This file is run as a script with the time limit of a call as its argument, and imports only the
standard library. A call is ``{"call": name, ...}``; the answer is ``{"value": ...}``, or
``{"error": ..., "trace": ...}`` if the algorithm raised an exception. Text that the algorithm
prints is redirected to standard error.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import os
import pickle
import random
import signal
import sys
import traceback
from typing import Any, TextIO

SAMPLE = "sample_hyperparameter_candidates"
UPDATE = "update_state"
IDLE_SECONDS = 900
"""Seconds without a call after which the process ends; its state is in the journal."""


class Child:
    """The algorithm, with one public method for each call that the parent process can make."""

    def __init__(self) -> None:
        self._algorithm: Any = None

    def start(
        self,
        *,
        target: str,
        folder: str | None,
        given: dict[str, Any],
        options: dict[str, Any],
        state: str | None,
    ) -> None:
        """Instantiates the algorithm, or restores it from a state that `save` returned.

        Args:
            target: The algorithm as ``module:Class``.
            folder: The code folder that contains the module; None for an installed module.
            given: Space, direction and seed; passed to the constructor if it accepts them.
            options: Additional constructor arguments.
            state: The state to restore; None to start without one.
        """
        if folder is not None:
            sys.path.insert(0, folder)
        random.seed(given["seed"])
        module, _, name = target.partition(":")
        kind = getattr(importlib.import_module(module), name)
        for method in (SAMPLE, UPDATE):
            if not callable(getattr(kind, method, None)):
                raise TypeError(
                    f"{name} has no method {method} (a subclass of Optuna's BaseSampler must be "
                    "installed, and allowed by the operator: HPO_ALLOWED_CLASSES)"
                )
        _seed_libraries(given["seed"])
        saved = pickle.loads(base64.b64decode(state)) if state else {}  # noqa: S301  of our making
        if "object" in saved:
            self._algorithm = saved["object"]
        else:
            self._algorithm = kind(**_accepted(kind, given), **options)
            if "state" in saved:
                self._algorithm.set_state(saved["state"])
        if saved:
            _set_random_state(saved["random"])

    def sample(self, *, n: int) -> list[Any]:
        """Returns n new candidates (configurations) of the algorithm."""
        return list(getattr(self._algorithm, SAMPLE)(n))

    def update(self, *, candidates: list[Any], scores: list[float]) -> None:
        """Passes candidates and their trials' objective values (`scores`) to the algorithm."""
        getattr(self._algorithm, UPDATE)(candidates, scores)

    def save(self) -> str:
        """Returns the complete state of the algorithm as text, from which `start` restores it.

        Raises:
            TypeError: The state cannot be pickled.
        """
        content: dict[str, Any] = {"random": _random_state()}
        if hasattr(self._algorithm, "get_state") and hasattr(self._algorithm, "set_state"):
            content["state"] = self._algorithm.get_state()
        else:
            content["object"] = self._algorithm
        try:
            return base64.b64encode(pickle.dumps(content)).decode()
        except Exception as error:
            raise TypeError(
                f"its state cannot be pickled ({error}); give it get_state() and set_state(state)"
            ) from error


def _accepted(kind: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    """Returns those of the given arguments that the constructor of a class accepts."""
    parameters = inspect.signature(kind).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return {name: value for name, value in given.items() if takes_all or name in parameters}


def _seed_libraries(seed: int) -> None:
    """Seeds NumPy and torch if the algorithm's module has imported them."""
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


def _random_state() -> dict[str, Any]:
    states: dict[str, Any] = {"random": random.getstate()}
    if numpy := sys.modules.get("numpy"):
        states["numpy"] = numpy.random.get_state()
    if torch := sys.modules.get("torch"):
        states["torch"] = torch.get_rng_state()
    return states


def _set_random_state(states: dict[str, Any]) -> None:
    random.setstate(states["random"])
    if "numpy" in states:
        sys.modules["numpy"].random.set_state(states["numpy"])
    if "torch" in states:
        sys.modules["torch"].set_rng_state(states["torch"])


def _answer(child: Child, line: str) -> str:
    """Executes one call, and returns the answer as JSON; an exception becomes an error answer."""
    try:
        call = json.loads(line)
        value = getattr(child, call.pop("call"))(**call)
        return json.dumps({"value": value}, default=_plain)
    except (Exception, SystemExit) as error:  # noqa: BLE001  the parent raises it
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return json.dumps({"error": text, "trace": _trace(error)})


def _trace(error: BaseException) -> str:
    """Formats the last three stack frames of an exception outside of this file.

    Returns an empty text if there are no such frames.
    """
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename not in (__file__, json.__file__)]
    return "".join(traceback.format_list(theirs[-3:]))


def _plain(value: Any) -> Any:
    """Converts a NumPy or torch scalar to a Python number.

    Raises:
        TypeError: The value has another type.
    """
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} is not a text, number, boolean or null")


def serve(calls: TextIO, answers: TextIO, *, call_seconds: int) -> None:
    """Answers the calls of the parent process until there are no more.

    The parent ends this process if a call takes too long. If the parent has died, an alarm signal
    ends this process.
    """
    child = Child()
    signal.alarm(IDLE_SECONDS)
    for line in calls:
        signal.alarm(2 * call_seconds)
        answers.write(_answer(child, line) + "\n")
        answers.flush()
        signal.alarm(IDLE_SECONDS)


def main(call_seconds: str) -> None:
    """Runs a user's search algorithm: reads method calls from standard input, writes answers.

    Answers go to standard output. Text that the algorithm prints is redirected to standard error,
    so that it does not mix with the answers.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    calls = os.fdopen(os.dup(0), "r", encoding="utf-8")
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    serve(calls, answers, call_seconds=int(call_seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
