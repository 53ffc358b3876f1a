"""Tokens at the gateway: issued for segments and operators, verified for all."""

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
SEGMENT_TIME = timedelta(days=7)
"""A segment's token ends with its segment. Until then it must outlast a pod that waits for a node
and a gateway that is away; an agent that talks to the gateway gets a new one every day."""
RENEWAL_AGE = timedelta(days=1)
LEEWAY = timedelta(seconds=60)
"""By how much the clocks of a worker and the gateway may differ."""

_PURPOSE = {
    TokenKind.TASK: Purpose.TASKS,
    TokenKind.TRIGGERER: Purpose.TASKS,
    TokenKind.SEGMENT: Purpose.SEGMENTS,
    TokenKind.SERVICE: Purpose.SERVICE,
}
_LONGEST = {
    TokenKind.TASK: TASK_TOKEN_TIME,
    TokenKind.TRIGGERER: TASK_TOKEN_TIME,
    TokenKind.SEGMENT: SEGMENT_TIME,
    TokenKind.SERVICE: SERVICE_TIME,
}


class BadTokenError(PermissionError):
    """The token is not one of the gateway's, or is not valid any more.

    Attributes:
        is_ours: The token was made for the gateway, so that it cannot be a person's.
    """

    def __init__(self, message: str, *, is_ours: bool) -> None:
        super().__init__(message)
        self.is_ours = is_ours


@dataclass(frozen=True)
class Claims:
    """What a valid token says.

    Attributes:
        kind: Who holds it.
        subject: The segment, or a name for logs and rate limits.
        dag_id: A task's DAG.
        run_id: A task's DAG run.
        is_to_be_renewed: It is old, or was signed with a key that is on its way out.
    """

    kind: TokenKind
    subject: str
    dag_id: str = ""
    run_id: str = ""
    is_to_be_renewed: bool = False


def issue_service_token(keys: KeyRing) -> str:
    """A token for an operator's own scripts: one hour, every study. Tasks cannot make one."""
    key = keys.first.derive(Purpose.SERVICE)
    return key.sign(TokenKind.SERVICE, "service", SERVICE_TIME)


def issue_segment_token(keys: KeyRing, segment_id: str) -> str:
    """A token for the agent of one segment."""
    key = keys.first.derive(Purpose.SEGMENTS)
    return key.sign(TokenKind.SEGMENT, segment_id, SEGMENT_TIME)


def read_token(keys: KeyRing, token: str) -> Claims:
    """Verifies a token.

    Raises:
        BadTokenError: It is not signed with a key of the ring, has expired or lives too long.
    """
    content = _unverified(token)
    try:
        kind = TokenKind(content.get("kind", ""))
        key_id = str(jwt.get_unverified_header(token).get("kid", ""))
        key = keys.find(key_id)
        if key is None:
            raise BadTokenError(
                f"the token is signed with the key {key_id[:64]!r}, which the gateway does not "
                "have (any more)",
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
    """What a token says of itself, to choose the key to verify it with."""
    try:
        content: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
        raise BadTokenError("not a token", is_ours=False) from error
    return content


def _claims(kind: TokenKind, content: dict[str, Any], *, is_first: bool) -> Claims:
    issued = datetime.fromtimestamp(content["iat"], UTC)
    longest = _LONGEST[kind] + LEEWAY
    if datetime.fromtimestamp(content["exp"], UTC) - issued > longest:
        raise ValueError(f"a token of a {kind} lives for {_LONGEST[kind]} at most")
    dag_id, run_id = content.get("dag", ""), content.get("run", "")
    if kind is TokenKind.TASK and not (
        isinstance(dag_id, str) and isinstance(run_id, str) and dag_id and run_id
    ):
        raise ValueError("a task's token must name its DAG and its run")
    return Claims(
        kind=kind,
        subject=content["sub"],
        dag_id=dag_id,
        run_id=run_id,
        is_to_be_renewed=not is_first or datetime.now(UTC) - issued > RENEWAL_AGE,
    )
