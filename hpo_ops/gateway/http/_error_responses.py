"""HTTP responses to errors: the caller gets a sentence, the gateway's log gets the details."""

from __future__ import annotations

import json
import logging
import secrets
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from hpo_ops.gateway.services.conflict_error import ConflictError
from hpo_ops.gateway.services.segment_service import SegmentOverError
from hpo_ops.ledger.database_errors import DatabaseUnavailableError, UnstorableValueError

logger = logging.getLogger(__name__)

_SHOWN: tuple[tuple[type[Exception], int], ...] = (
    (SegmentOverError, 410),
    (LookupError, 404),
    (ConflictError, 409),
    (ValueError, 422),
)
"""Errors whose message is sent to the caller, with the HTTP status."""
_LOGGED: tuple[tuple[type[Exception], int, str], ...] = (
    (DatabaseUnavailableError, 503, "the ledger's database does not answer: try again later"),
    (
        UnstorableValueError,
        422,
        "a value is out of range, or has characters that cannot be stored",
    ),
    (UnicodeError, 422, "a text has characters that cannot be stored"),
    (RecursionError, 422, "the body is nested too deeply"),
    (Exception, 500, "an unexpected error happened in the gateway"),
)
"""Errors whose message is only logged, since it may contain SQL or paths.

The caller gets the HTTP status and the sentence given here."""


def add_error_responses(app: FastAPI) -> None:
    """Adds error handlers to an app that respond with a status and a sentence, without SQL."""
    for shown, status in _SHOWN:
        app.add_exception_handler(shown, _show(status))
    for logged, status, sentence in _LOGGED:
        app.add_exception_handler(logged, _log(status, sentence))
    app.add_exception_handler(RequestValidationError, _show_validation_problems)


def _show(status: int) -> Any:
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


def _show_validation_problems(request: Request, error: Exception) -> Response:
    """Responds with status 422 and the invalid fields, without their possibly large values."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    return _answer(
        422, [{name: item[name] for name in ("loc", "msg", "type")} for item in found[:100]]
    )


def _answer(status: int, detail: object) -> Response:
    # ASCII only: a message may quote half a surrogate pair, which UTF-8 cannot encode.
    body = json.dumps({"detail": detail}, default=str)
    return Response(body, status, media_type="application/json")
