"""The program that runs a user's search algorithm in a sandbox, and answers calls as JSON lines.

It is run as a file, takes the time limit of a call from the command line, and imports the standard
library only. A call is ``{"call": name, ...}``; the answer is ``{"value": ...}``, or
``{"error": ..., "trace": ...}`` if the algorithm raised. Output of the algorithm goes to standard
error.
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
"""The process ends after so long without a call; its state is in the journal."""


class Child:
    """Holds the algorithm; each public method is a call that the parent process can make."""

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
        """Creates the algorithm, or restores it from a state."""
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
        """Returns n new candidates of the algorithm."""
        return list(getattr(self._algorithm, SAMPLE)(n))

    def update(self, *, candidates: list[Any], scores: list[float]) -> None:
        """Tells the algorithm the scores of candidates."""
        getattr(self._algorithm, UPDATE)(candidates, scores)

    def save(self) -> str:
        """Returns the algorithm's complete state, with which another process can continue."""
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
    """Selects the platform's arguments that the constructor accepts."""
    parameters = inspect.signature(kind).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return {name: value for name, value in given.items() if takes_all or name in parameters}


def _seed_libraries(seed: int) -> None:
    """Seeds NumPy and torch, if the algorithm's module has imported them."""
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
    """Makes one call and returns its answer; an exception of the algorithm becomes an error."""
    try:
        call = json.loads(line)
        value = getattr(child, call.pop("call"))(**call)
        return json.dumps({"value": value}, default=_plain)
    except (Exception, SystemExit) as error:  # noqa: BLE001  the parent raises it
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return json.dumps({"error": text, "trace": _trace(error)})


def _trace(error: BaseException) -> str:
    """Formats the last frames in the algorithm's code; empty if the error is not in its code."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename not in (__file__, json.__file__)]
    return "".join(traceback.format_list(theirs[-3:]))


def _plain(value: Any) -> Any:
    """Converts a number of NumPy or torch to a Python number."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} is not a text, number, boolean or null")


def serve(calls: TextIO, answers: TextIO, *, call_seconds: int) -> None:
    """Answers calls until the input ends.

    The parent ends a call that takes too long; the alarm ends this process if the parent has died.
    """
    child = Child()
    signal.alarm(IDLE_SECONDS)
    for line in calls:
        signal.alarm(2 * call_seconds)
        answers.write(_answer(child, line) + "\n")
        answers.flush()
        signal.alarm(IDLE_SECONDS)


def main(call_seconds: str) -> None:
    """Redirects standard output to standard error, so that prints do not mix with answers."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    calls = os.fdopen(os.dup(0), "r", encoding="utf-8")
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    serve(calls, answers, call_seconds=int(call_seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
