"""The program that runs in a sandbox and calls one function of a user.

It reads the request from standard input and writes the answer to standard output, each as one line
of JSON.

The request is ``{"target": "module:function", "folder": ..., "argument": ...}``; the answer is
``{"value": ...}``, or ``{"error": ..., "trace": ..., "is_loaded": ...}`` if an exception was
raised. ``folder`` is the user's code folder or null, ``trace`` the end of the traceback, and
``is_loaded`` whether the function was imported before the exception. The output of the function is
redirected to standard error. Imports the standard library only.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Imports and calls the requested function and returns the answer to the request.

    The answer's ``value`` is the function's result if that is a string, else its truth value. If
    an exception was raised, the answer has ``error``, ``trace`` and ``is_loaded`` instead (see the
    module's docstring).
    """
    is_loaded = False
    try:
        if request["folder"] is not None:
            sys.path.insert(0, request["folder"])
        module, _, name = request["target"].partition(":")
        function = getattr(importlib.import_module(module), name)
        is_loaded = True
        value = function(request["argument"])
        return {"value": value if isinstance(value, str) else bool(value)}
    except (Exception, SystemExit) as error:  # noqa: BLE001  the platform raises it
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if frame.filename != __file__][-5:]
        trace = "".join(traceback.format_list(theirs))
        return {"error": text, "trace": trace, "is_loaded": is_loaded}


def main() -> None:
    """Calls a user's function once, with the arguments of the request on standard input.

    The result is written to standard output. Text that the function prints is redirected to
    standard error, so that it does not mix with the result.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    answers.write(json.dumps(answer(request)) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
