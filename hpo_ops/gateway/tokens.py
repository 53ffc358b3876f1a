"""Issues the gateway's tokens for segments and operators, and verifies the tokens of all callers.

A segment is one uninterrupted execution of a trial; its agent authenticates with a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt

from hpo_ops.client.token_signing import (
    ALGORITHM,
    AUDIENCE,
    TASK_TOKEN_TIME,
    KeyRing,
    Purpose,
    TokenKind,
)

SERVICE_TIME = timedelta(hours=1)
"""Lifetime of a service token."""
SEGMENT_TIME = timedelta(days=7)
"""Lifetime of a segment's token.

The token must stay valid while the pod is queued or the gateway is down. An agent that reaches the
gateway receives a new token every day. After the segment has ended, its token changes nothing."""
RENEWAL_AGE = timedelta(days=1)
"""Age after which the gateway renews a segment's token."""
LEEWAY = timedelta(seconds=60)
"""Largest tolerated difference between the clocks of workers and of the gateway."""

_PURPOSE = {
    TokenKind.TASK: Purpose.TASKS,
    TokenKind.TRIGGERER: Purpose.TASKS,
    TokenKind.SEGMENT: Purpose.SEGMENTS,
    TokenKind.SERVICE: Purpose.SERVICE,
}
_MAX_LIFETIME = {
    TokenKind.TASK: TASK_TOKEN_TIME,
    TokenKind.TRIGGERER: TASK_TOKEN_TIME,
    TokenKind.SEGMENT: SEGMENT_TIME,
    TokenKind.SERVICE: SERVICE_TIME,
}


class BadTokenError(PermissionError):
    """A token was not issued for the gateway, or is no longer valid.

    Attributes:
        is_ours: Whether the token was issued for the gateway. Otherwise it may be a token of the
            platform's login for people.
    """

    def __init__(self, message: str, *, is_ours: bool) -> None:
        super().__init__(message)
        self.is_ours = is_ours


@dataclass(frozen=True)
class Claims:
    """The verified content of a token.

    Attributes:
        kind: The kind of caller for which the token was issued.
        subject: The id of the segment, or a name of the caller for logs and rate limits.
        dag_id: The DAG of a task; empty for other kinds.
        run_id: The DAG run of a task; empty for other kinds.
        is_to_be_renewed: Whether the token is older than `RENEWAL_AGE`, or not signed with the
            first key of the key ring.
    """

    kind: TokenKind
    subject: str
    dag_id: str = ""
    run_id: str = ""
    is_to_be_renewed: bool = False


def issue_service_token(keys: KeyRing) -> str:
    """Issues a token for an operator's scripts, valid for one hour and for all studies.

    Tasks cannot sign such a token, since they do not have the key for it.
    """
    key = keys.first.derive(Purpose.SERVICE)
    return key.sign(TokenKind.SERVICE, "service", SERVICE_TIME)


def issue_segment_token(keys: KeyRing, segment_id: str) -> str:
    """Issues a token for the agent of one segment."""
    key = keys.first.derive(Purpose.SEGMENTS)
    return key.sign(TokenKind.SEGMENT, segment_id, SEGMENT_TIME)


def read_token(keys: KeyRing, token: str) -> Claims:
    """Verifies a token and returns its content.

    Raises:
        BadTokenError: The token is not signed with a key of the key ring, has expired, lacks a
            claim, or has a longer lifetime than its kind allows.
    """
    content = _unverified(token)
    try:
        kind = TokenKind(content.get("kind", ""))
        key_id = str(jwt.get_unverified_header(token).get("kid", ""))
        key = keys.find(key_id)
        if key is None:
            raise BadTokenError(
                f"the token is signed with the key {key_id[:64]!r}, which is not, or no longer, "
                "a key of the gateway",
                is_ours=True,
            )
        verified: dict[str, Any] = jwt.decode(
            token,
            key.derive(_PURPOSE[kind]).secret,
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            leeway=LEEWAY,
            options={"require": ["exp", "iat", "sub", "kind"]},
        )
        return _claims(kind, verified, is_first=key is keys.first)
    except (jwt.InvalidTokenError, ValueError, OverflowError) as error:
        raise BadTokenError(str(error), is_ours=content.get("aud") == AUDIENCE) from error


def _unverified(token: str) -> dict[str, Any]:
    """Returns the content of a token without verifying it, to select the key for verification.

    Raises:
        BadTokenError: The text is not a JSON Web Token.
    """
    try:
        content: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
        raise BadTokenError("it is not a JSON Web Token", is_ours=False) from error
    return content


def _claims(kind: TokenKind, content: dict[str, Any], *, is_first: bool) -> Claims:
    issued = datetime.fromtimestamp(content["iat"], UTC)
    longest = _MAX_LIFETIME[kind]
    if datetime.fromtimestamp(content["exp"], UTC) - issued > longest + LEEWAY:
        raise ValueError(f"its lifetime is longer than {longest}, the maximum for a {kind}")
    dag_id, run_id = content.get("dag", ""), content.get("run", "")
    if kind is TokenKind.TASK and not (
        isinstance(dag_id, str) and isinstance(run_id, str) and dag_id and run_id
    ):
        raise ValueError("a task's token must name its DAG and its DAG run")
    return Claims(
        kind=kind,
        subject=content["sub"],
        dag_id=dag_id,
        run_id=run_id,
        is_to_be_renewed=not is_first or datetime.now(UTC) - issued > RENEWAL_AGE,
    )
