"""Tokens of tasks and agents; an agent's names one segment and expires."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import jwt

AUDIENCE = "hpo-gateway"
_ALGORITHM = "HS256"
SERVICE_TIME = timedelta(days=365)
SEGMENT_TIME = timedelta(days=7)
"""A segment's token ends with its segment; this is for one that nobody ends."""


class TokenKind(StrEnum):
    """Who speaks."""

    SERVICE = "service"
    SEGMENT = "segment"


class BadTokenError(PermissionError):
    """The token is not one of ours, or has expired."""


@dataclass(frozen=True)
class Claims:
    """What a token says."""

    kind: TokenKind
    subject: str


def issue_service_token(secret: str) -> str:
    """A token for Airflow's tasks."""
    return _issue(secret, TokenKind.SERVICE, "tasks", SERVICE_TIME)


def issue_segment_token(secret: str, segment_id: str) -> str:
    """A token for the agent of one segment."""
    return _issue(secret, TokenKind.SEGMENT, segment_id, SEGMENT_TIME)


def read_token(secret: str, token: str) -> Claims:
    """What a token says.

    Raises:
        BadTokenError: It was not signed with this secret, or has expired.
    """
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            secret,
            algorithms=[_ALGORITHM],
            audience=AUDIENCE,
            options={"require": ["exp", "sub", "kind"]},
        )
        return Claims(kind=TokenKind(claims["kind"]), subject=claims["sub"])
    except (jwt.InvalidTokenError, ValueError) as error:
        raise BadTokenError(str(error)) from error


def _issue(secret: str, kind: TokenKind, subject: str, lifetime: timedelta) -> str:
    return jwt.encode(
        {
            "kind": kind.value,
            "sub": subject,
            "aud": AUDIENCE,
            "exp": datetime.now(UTC) + lifetime,
        },
        secret,
        algorithm=_ALGORITHM,
    )
