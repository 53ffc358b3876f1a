"""Authentication: identifies the caller of a request from its credentials."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import HTTPException, Request, status

from hpo_ops.client.token_signing import KeyRing, TokenKind
from hpo_ops.gateway.http._caller_rights import PLATFORM_DAG, Caller, User
from hpo_ops.gateway.tokens import BadTokenError, Claims, read_token

Login = Callable[[Request], Awaitable[User]]
"""Returns the person who sent a request, or raises HTTPException 401 or 403."""


class Authenticator:
    """Identifies the caller of a request from its headers, without reading the body.

    A request without valid credentials is refused with status 401, since no route is public.

    Args:
        keys: The keys that verify tokens signed by the gateway or a task.
        login: Identifies a person from credentials other than such a token; if None, only tokens
            are accepted.
    """

    def __init__(self, keys: KeyRing, login: Login | None) -> None:
        self._keys = keys
        self._login = login

    async def __call__(self, request: Request) -> Caller:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        why = "the request needs a valid token"
        if scheme.lower() == "bearer":
            try:
                claims = read_token(self._keys, token)
            except BadTokenError as error:
                if error.is_ours:
                    raise _unauthorized(f"{why}: {error}") from error
            else:
                return _caller_of(claims)
        if self._login is None:
            raise _unauthorized(why)
        return Caller(user=await self._login(request))


def _caller_of(claims: Claims) -> Caller:
    """Returns the caller to whom a verified token was issued."""
    if claims.kind is TokenKind.SEGMENT:
        return Caller(segment=claims.subject, claims=claims)
    is_limited = claims.kind is TokenKind.TASK and claims.dag_id != PLATFORM_DAG
    return Caller(dag_run=(claims.dag_id, claims.run_id) if is_limited else None, claims=claims)


def _unauthorized(why: str) -> HTTPException:
    return HTTPException(status.HTTP_401_UNAUTHORIZED, why, headers={"WWW-Authenticate": "Bearer"})
