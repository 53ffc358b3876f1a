"""Errors as HTTP answers: a sentence for the caller, the details in the gateway's log."""

from __future__ import annotations

import json
import logging
import secrets
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, OperationalError
from starlette.responses import Response

from hpo_ops.gateway.services.conflict_error import ConflictError
from hpo_ops.gateway.services.segments import SegmentOverError

logger = logging.getLogger(__name__)

_TOLD: tuple[tuple[type[Exception], int], ...] = (
    (SegmentOverError, 410),
    (LookupError, 404),
    (ConflictError, 409),
    (ValueError, 422),
)
"""Errors of ours, each of which carries a sentence for the caller."""
_LOGGED: tuple[tuple[type[Exception], int, str], ...] = (
    (OperationalError, 503, "the ledger's database cannot answer now: try again later"),
    (DataError, 422, "a value is out of range, or has characters that cannot be stored"),
    (UnicodeError, 422, "a text has characters that cannot be stored"),
    (RecursionError, 422, "the body is nested too deeply"),
    (Exception, 500, "something went wrong in the gateway"),
)
"""Errors whose text is not for callers: it may have SQL or paths in it."""


def add_error_answers(app: FastAPI) -> None:
    """Makes an app answer errors with a status and a sentence, never with SQL or a traceback."""
    for told, status in _TOLD:
        app.add_exception_handler(told, _tell(status))
    for logged, status, sentence in _LOGGED:
        app.add_exception_handler(logged, _log(status, sentence))
    app.add_exception_handler(RequestValidationError, _tell_problems)


def _tell(status: int) -> Any:
    def answer(request: Request, error: Exception) -> Response:
        return _answer(status, str(error))

    return answer


def _log(status: int, sentence: str) -> Any:
    def answer(request: Request, error: Exception) -> Response:
        error_id = secrets.token_hex(4)
        logger.error(
            "error %s at %s %s", error_id, request.method, request.url.path, exc_info=error
        )
        return _answer(status, f"{sentence} (error {error_id} in the gateway's log)")

    return answer


def _tell_problems(request: Request, error: Exception) -> Response:
    """What is wrong with a request, without what was sent: that may be anything, and large."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    return _answer(
        422, [{name: item[name] for name in ("loc", "msg", "type")} for item in found[:100]]
    )


def _answer(status: int, detail: object) -> Response:
    # ASCII only: a message may quote half a surrogate pair, which UTF-8 cannot write.
    body = json.dumps({"detail": detail}, default=str)
    return Response(body, status, media_type="application/json")
